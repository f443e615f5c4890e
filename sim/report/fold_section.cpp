// The report of the folding: the classes of ranks, and why they are not one class, as text and
// JSON.
#include <fmt/format.h>

#include <vector>

#include "sim/render/text_table.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "sim/workload/workload_text.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Returns the ranks of each rank class, ascending.
std::vector<std::vector<RankId>> members_of(const Partition& partition) {
  std::vector<std::vector<RankId>> members(partition.ranks.size());
  for (RankId rank = 0; rank < partition.class_of_rank.size(); ++rank)
    members[partition.class_of_rank[rank]].push_back(rank);
  return members;
}

std::string reason_text(const RunView& view, const ClassReason& reason) {
  if (reason.unlike == kNone) return "";
  const auto first = [&](std::uint32_t of) { return view.partition.ranks[of].representative; };
  std::string text = fmt::format("    differs from class {} (rank {} against {})", reason.unlike,
                                 first(reason.rank_class), first(reason.unlike));
  if (reason.path.empty()) return wrapped(text + ": " + reason.difference.because, 6);
  text += "\n";
  for (const DifferenceStep& step : reason.path)
    text += wrapped(fmt::format("      {} {}, not {}", step.kind, step.here, step.there), 8);
  return text + wrapped("      " + reason.difference.because, 8);
}

}  // namespace

std::string fold_section(const RunView& view) {
  const Partition& partition = view.partition;
  std::string text = fmt::format("Folding: {} ranks in {} classes, {} groups in {}\n",
                                 partition.class_of_rank.size(), partition.ranks.size(),
                                 partition.class_of_group.size(), partition.groups.size());
  const auto members = members_of(partition);
  for (const ClassReason& reason : view.fold_reasons) {
    const std::uint32_t rank_class = reason.rank_class;
    text +=
        wrapped(fmt::format("  class {}: {} rank{} of {}: {}", rank_class,
                            members[rank_class].size(), members[rank_class].size() == 1 ? "" : "s",
                            view.workload.programs[partition.ranks[rank_class].program].name,
                            to_text(rank_blocks(members[rank_class]))),
                4);
    text += reason_text(view, reason);
  }
  return text;
}

Json rank_classes_json(const RunView& view) {
  Json rows = Json::array();
  const auto members = members_of(view.partition);
  for (const ClassReason& reason : view.fold_reasons) {
    Json blocks = Json::array();
    for (const RankBlocks& block : rank_blocks(members[reason.rank_class])) {
      blocks.push_back({{"first", block.first},
                        {"length", block.length},
                        {"every", block.every},
                        {"times", block.times}});
    }
    Json path = Json::array();
    for (const DifferenceStep& step : reason.path)
      path.push_back({{"kind", step.kind}, {"here", step.here}, {"there", step.there}});
    const RankClass& ranks = view.partition.ranks[reason.rank_class];
    rows.push_back({{"class", reason.rank_class},
                    {"ranks", ranks.members},
                    {"members", std::move(blocks)},
                    {"program", view.workload.programs[ranks.program].name},
                    {"unlike", reason.unlike == kNone ? Json(nullptr) : Json(reason.unlike)},
                    {"cause", to_string(reason.difference.cause)},
                    {"path", std::move(path)},
                    {"because", reason.difference.because}});
  }
  return rows;
}

}  // namespace trainyard
