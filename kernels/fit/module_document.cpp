#include "kernels/fit/module_document.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "kernels/expert_module.hpp"
#include "kernels/fit/evidence.hpp"
#include "kernels/fit/grouped_fit.hpp"
#include "sim/base/files.hpp"

namespace trainyard::fit {

namespace {

// Every module of a GPU's table, and how well those left out are predicted.
struct ModulePart {
  ExpertTable table;
  json errors = json::object();
};

ModulePart judged_modules(const Target& target, const FitRequest& request,
                          const GpuProfile& profile) {
  const auto file = request.measured / "moe" / target.table;
  ModulePart part;
  for (const std::string& routing : read_routings(file))
    for (const char* precision : module_precisions) {
      const auto samples = read_module_samples(file, precision, routing);
      if (samples.medians.empty()) continue;
      const ModuleErrors errors = held_out_modules(profile, samples.medians, {});
      fmt::print("{} modules {} {}: unseen shapes {}; of kinds never measured {}\n", target.profile,
                 precision, routing, to_text(errors.series), to_text(errors.model));
      part.errors[fmt::format("{} {}", precision, routing)] = {
          {"rows", samples.rows},
          {"shapes", samples.medians.size()},
          {"unseen_shapes", errors_json(errors.series)},
          {"model_alone", errors_json(errors.model)}};
      add_series(part.table, samples.medians);
    }
  return part;
}

void write_modules(const Target& target, const FitRequest& request, const ModulePart& part) {
  if (request.profiles.empty()) return;
  std::set<std::int64_t> counts;
  std::set<std::pair<std::string, std::string>> columns;
  for (const auto& [kind, series] : part.table.series) {
    columns.insert({kind.precision, kind.routing});
    for (const auto& [tokens, seconds] : series) counts.insert(tokens);
  }
  const std::vector<std::int64_t> tokens(counts.begin(), counts.end());
  json document = {{"schema", "trainyard.expert_modules"},
                   {"version", 1},
                   {"provenance",
                    {{"table", fmt::format("kernels/moe/{}, medians of equal rows", target.table)},
                     {"source", csv_source},
                     {"command", command},
                     {"date", request.date},
                     {"held_out", "every fifth shape on average, drawn with seed 1"},
                     {"errors", part.errors}}},
                   {"columns",
                    "hidden inner gated topk experts tensor_parallel expert_parallel : "
                    "microseconds at each of tokens"},
                   {"tokens", axis_text(tokens)},
                   {"tables", json::array()}};
  for (const auto& [precision, routing] : columns)
    document["tables"].push_back(
        {{"precision", precision},
         {"routing", routing},
         {"time_us", table_lines(part.table, tokens, precision, routing)}});
  write_file(request.profiles.parent_path() / "modules" / (std::string(target.profile) + ".json"),
             document.dump(1) + "\n");
}

}  // namespace

void fit_modules(const Target& target, const FitRequest& request, const GpuProfile& profile) {
  write_modules(target, request, judged_modules(target, request, profile));
}

}  // namespace trainyard::fit
