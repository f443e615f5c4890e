// Where the results of a run go, and the writing of them.
//
//   Outputs outputs = outputs_of({.out = "out"});   // out/scenario.json, result.json, csv/,
//   trace.json.gz, report.html
//   refuse_unwritable(outputs);                     // before the run, which may be long
//   std::string text = write(outputs, view, {});    // "Result  out/result.json\n..."
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "sim/render/page/page.hpp"
#include "sim/render/traces/trace_options.hpp"
#include "sim/report/run_view.hpp"

namespace trainyard {

// The outputs that the command line asks for; empty where it does not.
struct OutputChoice {
  std::string out = {};  // a folder for everything
  std::string trace = {};
  std::string json = {};
  std::string csv = {};
  std::string html = {};
  std::string svg = {};
  std::string trace_folder = {};
  std::string chakra = {};
};

// Where each result goes; nothing where it was not asked for.
struct Outputs {
  std::optional<std::filesystem::path> trace = {}, trace_folder = {}, json = {}, csv = {},
                                       scenario = {}, html = {}, svg = {}, chakra = {};
};

[[nodiscard]] Outputs outputs_of(const OutputChoice& choice);

// Throws InputError when a place can be seen to take no file: nothing has been computed yet.
void refuse_unwritable(const Outputs& outputs);
// The same for one file; nothing where the name is empty.
void refuse_unwritable(const std::filesystem::path& file);

// Writes all; returns the lines that say where things are. `gains` are for the page.
[[nodiscard]] std::string write(const Outputs& outputs, const RunView& view,
                                const TraceOptions& options, std::span<const PageGain> gains = {});

}  // namespace trainyard
