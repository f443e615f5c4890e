#include "sim/report/path_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "sim/base/csv.hpp"
#include "sim/fold/fold.hpp"
#include "sim/render/text_table.hpp"
#include "sim/timeline/critical_path.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// The time of one path piece: the time that the operation takes alone, and the rest.
struct Split {
  std::string own = {};  // cause of the first part: "gemm"
  double own_s = 0.0;
  std::string beyond = {};  // cause of the rest; empty where there is none
  double beyond_s = 0.0;
};

std::string_view kind_of(const Kernel& kernel) {
  // In the order of the alternatives of Kernel.
  constexpr std::string_view kNames[] = {"gemm", "grouped gemm", "attention",
                                         "memory-bound kernels", "copies"};
  return kernel.index() < std::size(kNames) ? kNames[kernel.index()] : "kernels";
}

// Names the causes of path pieces.
class PathNames {
 public:
  PathNames(const RunView& view, const EventGraph& graph) : view_(view), graph_(graph) {}

  [[nodiscard]] Split split(const PathPiece& piece) const {
    if (piece.gap) return {.own = "host (not issued yet)", .own_s = piece.seconds()};
    const Operation& op = graph_.operation(piece.event);
    if (op.kind == OpKind::Delay) return {.own = "host (stated delays)", .own_s = piece.seconds()};
    if (op.kind == OpKind::Compute) {
      const std::uint32_t kernel = graph_.program(piece.event.rank_class).kernel_of(op);
      const double alone_s = view_.kernel_costs[kernel].time.value();
      return divided(piece, kernel_name(op, kernel), alone_s, "kernels slowed by communication");
    }
    const std::uint32_t group = graph_.group_class(piece.event);
    // A call that takes longer than alone shares a link with other flows.
    const double alone_s = call_seconds_alone(view_.cluster, view_.partition, group, op.payload);
    return divided(piece, call_name(group, op.payload), alone_s, "waiting for links others use");
  }

 private:
  // Attributes up to `alone_s` to the operation and the rest to `beyond`. A contended operation
  // takes at least `alone_s`; the minimum covers rounding.
  static Split divided(const PathPiece& piece, std::string own, double alone_s,
                       std::string beyond) {
    const double own_s = std::min(piece.seconds(), alone_s);
    return {.own = std::move(own),
            .own_s = own_s,
            .beyond = std::move(beyond),
            .beyond_s = piece.seconds() - own_s};
  }
  [[nodiscard]] std::string kernel_name(const Operation& op, std::uint32_t kernel) const {
    if (op.work == WorkClass::Optimizer) return "optimizer";
    const std::string kind(kind_of(view_.workload.kernels.at(kernel)));
    return op.part == StepPart::Recompute ? "recomputed " + kind : kind;
  }
  [[nodiscard]] std::string call_name(std::uint32_t group_class, std::uint32_t call) const {
    const GroupId group = view_.partition.groups[group_class].representative;
    return fmt::format("{} {} on {}", to_string(view_.workload.groups[group].kind),
                       to_string(op_of(view_.workload.calls[call])), medium(group_class, call));
  }
  // Returns the network where the call uses a NIC, else NVLink where it uses that, else PCIe.
  [[nodiscard]] std::string_view medium(std::uint32_t group_class, std::uint32_t call) const {
    bool nvlink = false;
    for (const FoldedPhase& phase : view_.partition.phases[group_class][call]) {
      for (const std::uint32_t flow : phase.flows) {
        for (const FlowClass::Weight& weight : view_.partition.flows[flow].weights) {
          const LinkId link = view_.partition.links[weight.link_class].representative;
          const LinkKind kind = view_.cluster.link(link).kind;
          if (kind == LinkKind::NicPort) return "network";
          nvlink = nvlink || kind == LinkKind::NvLink;
        }
      }
    }
    return nvlink ? "NVLink" : "PCIe";
  }

  const RunView& view_;
  const EventGraph& graph_;
};

std::vector<PathCause> sorted_causes(const std::map<std::string, double>& sums, double whole) {
  std::vector<PathCause> causes;
  for (const auto& [name, seconds] : sums) {
    if (seconds > 0.0)
      causes.push_back({.name = name, .seconds = seconds, .share = seconds / whole});
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return causes;
}

// Sums the slack of operations by name, over all ranks.
std::vector<OperationSlack> slack_by_name(const RunView& view, const EventGraph& graph,
                                          const std::vector<PathPiece>& path) {
  const auto slack = slack_seconds(graph, view.partition, view.timeline);
  std::map<std::uint16_t, OperationSlack> kinds;
  double ranks = 0.0;
  for (std::uint32_t rank_class = 0; rank_class < slack.size(); ++rank_class) {
    const std::uint32_t members = view.partition.ranks[rank_class].members;
    const OpTimes& times = view.timeline.classes[rank_class];
    ranks += members;
    for (OpIndex op = 0; op < slack[rank_class].size(); ++op) {
      const std::uint16_t name = graph.operation({rank_class, op}).name;
      const auto [entry, fresh] = kinds.try_emplace(name);
      OperationSlack& kind = entry->second;
      if (fresh) {
        kind.name = view.workload.names.at(name);
        kind.least_slack_s = std::numeric_limits<double>::infinity();
      }
      // Rounding may make the slack of an operation on the path slightly negative.
      const double room = std::max(0.0, slack[rank_class][op]);
      kind.count += members;
      kind.seconds += members * (times.end_s[op] - times.start_s[op]);
      kind.mean_slack_s += members * room;
      kind.least_slack_s = std::min(kind.least_slack_s, room);
    }
  }
  for (const PathPiece& piece : path) {
    if (!piece.gap) kinds[graph.operation(piece.event).name].on_path_s += piece.seconds();
  }
  std::vector<OperationSlack> all;
  for (auto& [name, kind] : kinds) {
    kind.mean_slack_s /= static_cast<double>(kind.count);
    kind.seconds /= ranks;
    all.push_back(std::move(kind));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return all;
}

std::string seconds_text(double seconds) { return to_text(Seconds{seconds}); }

}  // namespace

std::string path_sentence(const PathSummary& path) {
  constexpr std::size_t kNamed = 5;
  std::string text = "Critical path: ";
  for (std::size_t i = 0; i < std::min(kNamed, path.causes.size()); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", percent(path.causes[i].share),
                        path.causes[i].name);
  if (path.causes.size() > kNamed) text += ", ...";
  const std::string stages = path_stages_sentence(path);
  return text + "." + (stages.empty() ? "" : " " + stages);
}

std::string path_stages_sentence(const PathSummary& path) {
  if (path.stages.size() < 2 || path.seconds <= 0.0) return "";
  return fmt::format(
      "It runs through stage {}; {} of it is in other stages (pipeline fill and drain).",
      path.busiest_stage, percent(path.elsewhere_s / path.seconds));
}

TextTable causes_table(const PathSummary& path) {
  TextTable causes({"on the critical path", "time", "share", ""});
  for (const PathCause& cause : path.causes)
    causes.row({cause.name, seconds_text(cause.seconds), percent(cause.share),
                fmt::format("{:<50}", bar(cause.share))});
  return causes;
}

TextTable slack_table(const PathSummary& path) {
  TextTable slack({"operation", "mean rank", "on the path", "least slack", "mean slack"});
  constexpr std::size_t kShown = 16;
  for (std::size_t i = 0; i < std::min(kShown, path.slack.size()); ++i) {
    const OperationSlack& row = path.slack[i];
    slack.row({row.name, seconds_text(row.seconds), seconds_text(row.on_path_s),
               seconds_text(row.least_slack_s), seconds_text(row.mean_slack_s)});
  }
  return slack;
}

PathSummary path_summary(const RunView& view) {
  const EventGraph graph(view.workload, view.partition);
  const std::vector<PathPiece> path = critical_path(graph, view.timeline);
  const PathNames names(view, graph);
  PathSummary summary{.seconds = view.timeline.makespan_s};
  std::map<std::string, double> sums;
  std::map<std::uint32_t, double> stages;
  for (const PathPiece& piece : path) {
    const Split split = names.split(piece);
    sums[split.own] += split.own_s;
    if (split.beyond_s > 0.0) sums[split.beyond] += split.beyond_s;
    stages[graph.program(piece.event.rank_class).stage] += piece.seconds();
  }
  summary.causes = sorted_causes(sums, summary.seconds);
  // Among stages of equal time the first one is the busiest, because `stages` is ordered.
  double most = -1.0;
  for (const auto& [stage, seconds] : stages) {
    summary.stages.push_back({stage, seconds});
    if (seconds <= most) continue;
    most = seconds;
    summary.busiest_stage = stage;
  }
  summary.elsewhere_s = path.empty() ? 0.0 : summary.seconds - most;
  summary.slack = slack_by_name(view, graph, path);
  return summary;
}

std::string path_section(const RunView& view) {
  const PathSummary path = path_summary(view);
  if (path.causes.empty()) return "";
  return wrapped(path_sentence(path), 2) + "\n" + causes_table(path).text() +
         "\nHow much later operations could end without a longer step (the longest kinds)\n" +
         slack_table(path).text();
}

Json path_json(const RunView& view) {
  const PathSummary path = path_summary(view);
  Json causes = Json::array();
  for (const PathCause& cause : path.causes)
    causes.push_back({{"cause", cause.name}, {"time_s", cause.seconds}, {"share", cause.share}});
  Json stages = Json::array();
  for (const PathStage& stage : path.stages)
    stages.push_back({{"stage", stage.stage}, {"time_s", stage.seconds}});
  Json operations = Json::array();
  for (const OperationSlack& row : path.slack) {
    operations.push_back({{"operation", row.name},
                          {"count", row.count},
                          {"mean_rank_s", row.seconds},
                          {"on_path_s", row.on_path_s},
                          {"least_slack_s", row.least_slack_s},
                          {"mean_slack_s", row.mean_slack_s}});
  }
  return {{"time_s", path.seconds},          {"causes", std::move(causes)},
          {"stages", std::move(stages)},     {"busiest_stage", path.busiest_stage},
          {"elsewhere_s", path.elsewhere_s}, {"operations", std::move(operations)}};
}

std::string path_csv(const RunView& view) {
  const EventGraph graph(view.workload, view.partition);
  const PathNames names(view, graph);
  std::string text = "start_s,end_s,stage,rank,operation,microbatch,layer,cause,beyond_s\n";
  for (const PathPiece& piece : critical_path(graph, view.timeline)) {
    const Split split = names.split(piece);
    const Operation& op = graph.operation(piece.event);
    text += fmt::format("{},{},{},{},{},{},{},{},{}\n", piece.start_s, piece.end_s,
                        graph.program(piece.event.rank_class).stage,
                        view.partition.ranks[piece.event.rank_class].representative,
                        csv_field(view.workload.names.at(op.name)), op.microbatch, op.layer,
                        split.own, split.beyond_s);
  }
  return text;
}

}  // namespace trainyard
