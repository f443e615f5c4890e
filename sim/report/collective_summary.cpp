#include "sim/report/collective_summary.hpp"

#include <array>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace trainyard {
namespace {

using Key = std::tuple<GroupKind, CollectiveOp, std::string, std::uint64_t>;
struct Sums {
  std::string requested = {};
  Carrier carrier = {};
  double count = 0.0;
  double bytes = 0.0;
  double time_s = 0.0;
};

// A collective is seen by each of its n members, a message once by its sender; each member of a
// rank class then stands for this much of a call.
double calls_per_rank(const Operation& op, std::uint64_t ranks) {
  if (op.kind == OpKind::Send) return 1.0;
  return op.kind == OpKind::Collective ? 1.0 / static_cast<double>(ranks) : 0.0;
}

// The row of a call in a group.
Sums& row_of(const RunView& view, GroupId id, std::uint32_t index, std::map<Key, Sums>& rows) {
  const Group& group = view.workload.groups.at(id);
  const Call& call = view.workload.calls.at(index);
  Carrier carrier = view.carrier(id, index);
  Sums& sums = rows[{group.kind, op_of(call), carrier.label, group.members.size()}];
  sums.requested = algorithm_of(call);
  sums.carrier = std::move(carrier);
  return sums;
}

void add_class(const RunView& view, std::size_t index, std::map<Key, Sums>& rows) {
  const RankClass& ranks = view.partition.ranks[index];
  const Program& program = view.workload.programs.at(ranks.program);
  const Rank& rank = view.workload.ranks.at(ranks.representative);
  const OpTimes& times = view.timeline.classes.at(index);
  std::map<std::pair<GroupId, std::uint32_t>, Sums*> known;
  struct Met {
    OpKind kind = OpKind::Collective;
    std::uint16_t slot = 0;
    std::uint32_t call = 0;
    Sums* sums = nullptr;
    double calls = 0.0;  // that one operation stands for
    double bytes = 0.0;
  };
  std::array<Met, 16> recent{};  // they are few, and met again and again
  OpIndex next = 0;
  for (const Operation& op : program.operations) {
    const OpIndex i = next++;
    if (op.kind != OpKind::Collective && op.kind != OpKind::Send) continue;
    Met& met = recent[(op.payload * 3 + op.slot) % recent.size()];
    if (met.sums == nullptr || met.kind != op.kind || met.slot != op.slot ||
        met.call != op.payload) {
      const GroupId group = rank.slots.at(op.slot).group;
      const double calls =
          ranks.members * calls_per_rank(op, view.workload.groups[group].members.size());
      Sums*& sums = known[{group, op.payload}];
      if (sums == nullptr) sums = &row_of(view, group, op.payload, rows);
      met = {.kind = op.kind,
             .slot = op.slot,
             .call = op.payload,
             .sums = sums,
             .calls = calls,
             .bytes = calls * static_cast<double>(bytes_of(view.workload.calls[op.payload]))};
    }
    met.sums->count += met.calls;
    met.sums->bytes += met.bytes;
    met.sums->time_s += met.calls * (times.end_s[i] - times.start_s[i]);
  }
}

}  // namespace

std::vector<CollectiveSummary> collective_summary(const RunView& view) {
  std::map<Key, Sums> rows;
  for (std::size_t index = 0; index < view.partition.ranks.size(); ++index)
    add_class(view, index, rows);
  std::vector<CollectiveSummary> result;
  for (const auto& [key, sums] : rows) {
    const auto& [group, op, label, ranks] = key;
    const double busbw =
        sums.time_s > 0.0 ? bus_bandwidth_factor(op, ranks) * sums.bytes / sums.time_s : 0.0;
    result.push_back({.group = group,
                      .op = op,
                      .requested = sums.requested,
                      .carrier = sums.carrier,
                      .ranks = ranks,
                      .count = static_cast<std::uint64_t>(std::llround(sums.count)),
                      .bytes = sums.bytes,
                      .time_s = sums.time_s,
                      .busbw_bytes_per_s = busbw});
  }
  return result;
}

}  // namespace trainyard
