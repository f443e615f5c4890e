// The critical path (sim/timeline/critical_path.hpp) by cause and by stage, and how much room the
// operations beside it have.
//
//   PathSummary path = path_summary(view);
//   path.causes.front();   // {"gemm", 4.1 s, 0.31}
//
// The time of a kernel or a call on the path is split into the time that it takes alone and the
// rest: a kernel beyond its own time was slowed by communication beside it; a call beyond its own
// time (sim/fold/fold.hpp) waited for links that others used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/run_view.hpp"

namespace trainyard {

struct PathCause {
  std::string name;  // "gemm", "recomputed attention", "tensor all_reduce on NVLink", "host", ...
  double seconds = 0.0;
  double share = 0.0;  // of the path
};

struct PathStage {
  std::uint32_t stage = 0;
  double seconds = 0.0;
};

// Operations of one kind: how long they run, how much of that is on the path, and how much later
// they could end.
struct OperationSlack {
  std::string name;         // "backward mlp"
  std::uint64_t count = 0;  // of all ranks
  double seconds = 0.0;     // mean rank
  double on_path_s = 0.0;
  double least_slack_s = 0.0;
  double mean_slack_s = 0.0;
};

struct PathSummary {
  double seconds = 0.0;                    // of the path: the step
  std::vector<PathCause> causes = {};      // largest first
  std::vector<PathStage> stages = {};      // by stage; communication counts to the stage it ends in
  std::uint32_t busiest_stage = 0;         // of the path
  double elsewhere_s = 0.0;                // on the path, in other stages: pipeline fill and drain
  std::vector<OperationSlack> slack = {};  // longest first
};
[[nodiscard]] PathSummary path_summary(const RunView& view);

// The two tables, and a sentence before them: "critical path: 31.0 % gemm, 9.2 % ...".
[[nodiscard]] std::string path_section(const RunView& view);
// {seconds, causes: [{cause, time_s, share}], stages, busiest_stage, elsewhere_s, operations}
[[nodiscard]] nlohmann::ordered_json path_json(const RunView& view);
// Every piece of the path in order: start_s, end_s, stage, rank, operation, microbatch, layer,
// cause.
[[nodiscard]] std::string path_csv(const RunView& view);

}  // namespace trainyard
