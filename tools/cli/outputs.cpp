#include "tools/cli/outputs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/chakra/export.hpp"
#include "sim/render/page/charts.hpp"
#include "sim/render/page/page.hpp"
#include "sim/render/traces/chrome_trace.hpp"
#include "sim/render/traces/perfetto/perfetto_trace.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& place, std::string problem, std::string hint) {
  throw InputError(Problem{.file = place.string(),
                           .pointer = {},
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

// Throws if the file cannot be created. Missing folders are created later, so the nearest existing
// folder must allow a new entry.
void refuse_unwritable_place(const fs::path& place) {
  std::error_code error;  // a path that cannot be read is no folder to write to
  fs::path folder = fs::absolute(place, error).parent_path();
  while (!fs::exists(folder, error) && folder != folder.root_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder, error)) {
    fail(place, folder.string() + " is not a folder", "write into another one");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(place, "the folder " + folder.string() + " cannot be written", "write into another one");
  }
}

void refuse_unwritable_folder(const std::optional<fs::path>& folder) {
  if (folder) refuse_unwritable_place(*folder / "x");
}

}  // namespace

Outputs outputs_of(const OutputChoice& choice) {
  Outputs outputs;
  if (!choice.out.empty()) {
    const fs::path folder = choice.out;
    outputs = {.trace = folder / "trace.json.gz",
               .json = folder / "result.json",
               .csv = folder / "csv",
               .scenario = folder / "scenario.json",
               .html = folder / "report.html"};
  }
  if (!choice.trace.empty()) outputs.trace = choice.trace;
  if (!choice.trace_folder.empty()) outputs.trace_folder = choice.trace_folder;
  if (!choice.chakra.empty()) outputs.chakra = choice.chakra;
  if (!choice.json.empty()) {
    outputs.json = choice.json;
    // The resolved scenario is written beside the result, so that the run can be repeated. A pipe
    // or /dev/stdout has no file beside it.
    if (!is_irreplaceable(choice.json))
      outputs.scenario = fs::path(choice.json).replace_extension(".scenario.json");
  }
  if (!choice.csv.empty()) outputs.csv = choice.csv;
  if (!choice.html.empty()) outputs.html = choice.html;
  if (!choice.svg.empty()) outputs.svg = choice.svg;
  return outputs;
}

void refuse_unwritable(const fs::path& file) {
  if (file.empty()) return;
  std::error_code error;  // nothing is known about a file in a folder without access
  const fs::file_status status = fs::status(file, error);
  if (fs::is_directory(status)) fail(file, "is a folder", "name a file in it");
  if (!fs::exists(status) || fs::is_regular_file(status)) refuse_unwritable_place(file);
}

void refuse_unwritable(const Outputs& outputs) {
  for (const fs::path& file : files_of(outputs)) refuse_unwritable(file);
  refuse_unwritable_folder(outputs.csv);
  refuse_unwritable_folder(outputs.trace_folder);
  refuse_unwritable_folder(outputs.chakra);
  if (outputs.chakra) chakra::refuse_unless_built_in(outputs.chakra->string());
}

std::vector<fs::path> files_of(const Outputs& outputs) {
  std::vector<fs::path> files;
  for (const auto& file :
       {outputs.trace, outputs.json, outputs.scenario, outputs.html, outputs.svg})
    if (file) files.push_back(*file);
  return files;
}

// Paths are compared without their links and dots: ./a.json and a.json are one file.
void refuse_outputs(const std::vector<fs::path>& outputs, const std::vector<fs::path>& inputs) {
  const auto place_of = [](const fs::path& file) {
    std::error_code error;  // a path that cannot be read is compared as it is written
    const fs::path place = fs::weakly_canonical(fs::absolute(file), error);
    return error ? file : place;
  };
  std::set<fs::path> read;
  for (const fs::path& input : inputs)
    if (!input.empty()) read.insert(place_of(input));
  std::set<fs::path> written;
  for (const fs::path& output : outputs) {
    refuse_unwritable(output);
    if (output.empty() || is_irreplaceable(output)) continue;
    if (read.contains(place_of(output)))
      fail(output, "is read by this command, whose output would replace it", "name another file");
    if (!written.insert(place_of(output)).second)
      fail(output, "is named for two outputs", "give each output a file of its own");
  }
}

// Writes the trace first: only the trace may refuse its options (a rank that does not exist), and
// then no other file is left behind.
std::string write(const Outputs& outputs, const RunView& view, const TraceOptions& options,
                  std::span<const PageGain> gains) {
  std::string text;
  const auto say = [&text](const char* what, const fs::path& where, const char* how = "") {
    text += fmt::format("{:<17}  {}{}\n", what, where.string(), how);
  };
  if (outputs.trace) {
    const bool perfetto = is_perfetto_trace(*outputs.trace);
    (perfetto ? write_perfetto_trace : write_chrome_trace)(view, *outputs.trace, options);
    say("Trace", *outputs.trace,
        perfetto ? "   (open it at https://ui.perfetto.dev: drag the file there)"
                 : "   (open it at https://ui.perfetto.dev or in speedscope: drag the file there)");
  }
  if (outputs.trace_folder) {
    write_trace_directory(view, *outputs.trace_folder, options);
    say("Traces", *outputs.trace_folder, "   (a file for each rank, for HolisticTraceAnalysis)");
  }
  if (outputs.chakra) {
    const std::vector<RankId> all;  // empty: the exporter then chooses the ranks itself
    chakra::write_traces(view, *outputs.chakra, options.all_ranks ? all : options.ranks);
    say("Chakra traces", *outputs.chakra, "   (a file for each rank; trainyard import chakra)");
  }
  if (outputs.scenario && !view.facts.scenario.is_null()) {
    write_file(*outputs.scenario, to_text(view.facts.scenario));
    say("Resolved scenario", *outputs.scenario);
  }
  if (outputs.json) {
    write_file(*outputs.json, to_text(result_json(view)));
    say("Result", *outputs.json);
  }
  if (outputs.csv) {
    write_csv_directory(view, *outputs.csv);
    say("Tables", *outputs.csv);
  }
  if (outputs.html) {
    write_file(*outputs.html, report_page({.view = view, .gains = gains}));
    say("Page", *outputs.html, "   (open it in a browser)");
  }
  if (outputs.svg) {
    write_file(*outputs.svg, pipeline_picture(view));
    say("Picture", *outputs.svg);
  }
  return text;
}

}  // namespace trainyard
