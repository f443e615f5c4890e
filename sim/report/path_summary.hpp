// The critical path (sim/timeline/critical_path.hpp) by cause and by stage, and the slack of the
// operations that are not on it.
//
//    PathSummary path = path_summary(view);
//    path.causes.front();   // {"gemm", 4.1 s, 0.31}
//
// The summary splits the time of a kernel or a call on the path into the time that it takes alone
// and the rest. The rest of a kernel is slowdown by concurrent communication. The rest of a call
// (sim/fold/fold.hpp) is waiting for links that other flows use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/render/text_table.hpp"
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

// The operations of one name: how long they run, how much of that is on the path, and how much
// later they could end without a longer step.
struct OperationSlack {
  std::string name;         // "backward mlp"
  std::uint64_t count = 0;  // summed over all ranks
  double seconds = 0.0;     // mean over the ranks
  double on_path_s = 0.0;
  double least_slack_s = 0.0;
  double mean_slack_s = 0.0;
};

struct PathSummary {
  double seconds = 0.0;                // length of the path, which is the step
  std::vector<PathCause> causes = {};  // largest first
  std::vector<PathStage> stages = {};  // by stage; communication counts in the stage where it ends
  std::uint32_t busiest_stage = 0;     // with most time on the path
  double elsewhere_s = 0.0;            // on the path, in other stages: pipeline fill and drain
  std::vector<OperationSlack> slack = {};  // longest first
};
[[nodiscard]] PathSummary path_summary(const RunView& view);

// "Critical path: 31.0 % gemm, 9.2 % ... It runs through stage 3; ..."
[[nodiscard]] std::string path_sentence(const PathSummary& path);
// Only the part on stages; empty for a single stage.
[[nodiscard]] std::string path_stages_sentence(const PathSummary& path);
[[nodiscard]] TextTable causes_table(const PathSummary& path);
[[nodiscard]] TextTable slack_table(const PathSummary& path);  // of the longest kinds

// Returns the sentence and the two tables.
[[nodiscard]] std::string path_section(const RunView& view);
// Returns {time_s, causes: [{cause, time_s, share}], stages, busiest_stage, elsewhere_s,
// operations}.
[[nodiscard]] nlohmann::ordered_json path_json(const RunView& view);
// Returns every piece of the path in order: start_s, end_s, stage, rank, operation, microbatch,
// layer, cause, beyond_s.
[[nodiscard]] std::string path_csv(const RunView& view);

}  // namespace trainyard
