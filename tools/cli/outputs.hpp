// The files that a run writes, and the function that writes them.
//
//    Outputs outputs = outputs_of({.out = "out"});   // out/scenario.json, result.json, csv/,
//                                                    // trace.json.gz, report.html
//    refuse_unwritable(outputs);                     // before the run, which may be long
//    std::string text = write(outputs, view, {});    // one line for each output, with its path
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/render/page/page.hpp"
#include "sim/render/traces/trace_options.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// The values of the output options on the command line. An option that was not given is empty.
struct OutputChoice {
  std::string out = {};  // a folder for all outputs
  std::string trace = {};
  std::string json = {};
  std::string csv = {};
  std::string html = {};
  std::string svg = {};
  std::string trace_folder = {};
  std::string chakra = {};
};

// The path of each output. An output that was not requested has no value.
struct Outputs {
  std::optional<std::filesystem::path> trace = {}, trace_folder = {}, json = {}, csv = {},
                                       scenario = {}, html = {}, svg = {}, chakra = {};
};

[[nodiscard]] Outputs outputs_of(const OutputChoice& choice);

// Throws InputError if an output path cannot be written, as far as the file system shows it. The
// command calls this before the simulation, so that no computation is lost.
void refuse_unwritable(const Outputs& outputs);
// Checks one file in the same way. An empty name passes.
void refuse_unwritable(const std::filesystem::path& file);

// The files among the outputs, without the folders.
[[nodiscard]] std::vector<std::filesystem::path> files_of(const Outputs& outputs);
// Checks all files of a command: each as above, and none may replace a file that the command reads,
// or another output. Devices and pipes may be named twice.
void refuse_outputs(const std::vector<std::filesystem::path>& outputs,
                    const std::vector<std::filesystem::path>& inputs);

// Writes all requested outputs and returns one line for each, with its path. `gains` are the
// what-ifs that the report page shows.
[[nodiscard]] std::string write(const Outputs& outputs, const RunView& view,
                                const TraceOptions& options, std::span<const PageGain> gains = {});

}  // namespace trainyard
