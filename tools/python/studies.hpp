// The studies of the command as functions for Python. Each returns the JSON and the text that the
// command writes and prints, and leaves the rest to Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/simulate/simulate.hpp"
#include "tools/python/call.hpp"
#include "tools/studies/batch/batch.hpp"
#include "tools/studies/collective/options.hpp"
#include "tools/studies/goodput/study.hpp"

namespace trainyard::python {

// The answer of a study. Parts that a study does not have are empty.
struct Answer {
  std::string json;
  std::string text;
  std::string html = {};
  std::string svg = {};
};

// A simulated scenario.
struct Run {
  Scenario scenario;
  Result result;
};

// Simulates a scenario and adds the error of measured runs of its kind, as `trainyard run` does.
[[nodiscard]] Run run(const Scenario& scenario, const SimulateOptions& options, Memo& memo);

[[nodiscard]] Answer explain(const Run& run, std::size_t processes, Call& call);
[[nodiscard]] Answer memory(const Run& run, const Variant& variant, bool search,
                            std::size_t processes, Call& call);
// Weeks of training, as `trainyard goodput` samples them.
[[nodiscard]] Answer goodput(GoodputQuestion question, Call& call);
// Several jobs on one cluster, as `trainyard jobs` simulates them. `jobs` is the file, or the
// document, with changes.
[[nodiscard]] Answer jobs(const Variant& jobs, std::uint32_t shift, double priorities, Call& call);
[[nodiscard]] Answer compare(const std::vector<Variant>& variants, std::size_t processes,
                             Call& call);

struct SearchChoice {
  Variant scenario;
  std::vector<std::string>
      over;  // as `trainyard search` takes them: "training.recompute=none,full"
  std::string journal;
  std::size_t top = 10;
  std::size_t processes = 0;
  double seconds = 0.0;
  double headroom = 0.0;
  std::optional<double> price_per_gpu_hour;
  bool exhaustive = false;
  bool refine = true;
};
[[nodiscard]] Answer search(const SearchChoice& choice, Call& call);

// Runs the variants in worker processes. Rows of the journal, as lines of JSON, in the order of the
// variants; equal variants have equal rows.
[[nodiscard]] std::vector<std::string> sweep(const std::vector<Variant>& variants,
                                             const std::string& journal, std::size_t processes,
                                             Call& call);

// A study of one collective, of several groups at the same time where the options name groups.
// JSON as `trainyard collective --json`; rows of refused algorithms are missing there, and the text
// says why.
[[nodiscard]] Answer collective(const StudyOptions& choice);

// Every name that a scenario may use of a kind: models, nodes, fabrics, gpus, frameworks, hosts,
// schedules, engines. Throws InputError for another kind.
[[nodiscard]] std::vector<std::string> names(const std::string& kind);

// A run next to traces of torch.profiler or Nsight Systems, or to a list of step times. `ranks` has
// one rank for each measured step, or is empty. JSON as `trainyard validate --against --json`.
[[nodiscard]] Answer against(const Run& run, const std::vector<std::string>& traces,
                             const std::vector<std::uint32_t>& ranks,
                             const std::string& step_range);

}  // namespace trainyard::python
