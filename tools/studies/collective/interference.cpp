#include "tools/studies/collective/interference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/timed_faults.hpp"
#include "sim/collectives/profile/profiled_model.hpp"
#include "sim/engine/engine.hpp"
#include "sim/fold/fold.hpp"
#include "sim/workload/call.hpp"

namespace trainyard {

namespace {

constexpr std::uint32_t kStreamsMost = 250;

// The operations of a rank as tuples (stream, call, kind), in the order of their streams.
using Part = std::tuple<std::uint8_t, std::uint32_t, OpKind>;

// Several groups as one workload. A rank has a separate stream and slot for each of its groups, and
// no dependency between them, so all calls start at time 0.
class Joined {
 public:
  Joined(std::span<const CollectiveGroup* const> groups, std::span<const Call> calls) {
    workload_.streams = {"compute"};
    workload_.names = {"collective"};
    for (std::size_t i = 0; i < groups.size(); ++i) add(*groups[i], calls[i]);
    finish();
  }

  [[nodiscard]] const Workload& workload() const { return workload_; }

  // The time at which the call of the i-th group ended.
  [[nodiscard]] double end_s(std::size_t group, const Partition& partition,
                             const Timeline& timeline) const {
    const RankId rank = workload_.groups[group].members.front();
    const std::vector<Part>& parts = parts_[rank];
    const auto found = std::ranges::find(parts, streams_[group],
                                         [](const Part& part) { return std::get<0>(part); });
    // finish() makes the operations of a program in the order of its parts.
    const auto operation = static_cast<std::size_t>(found - parts.begin());
    return timeline.classes[partition.class_of_rank[rank]].end_s[operation];
  }

 private:
  RankId rank_of(std::uint32_t gpu) {
    const auto [entry, fresh] =
        ranks_.try_emplace(gpu, static_cast<RankId>(workload_.ranks.size()));
    if (fresh) {
      workload_.ranks.push_back({.gpu = gpu});
      parts_.emplace_back();
    }
    return entry->second;
  }

  // The lowest stream that no member uses yet. A stream runs its operations in order, so groups
  // with a common member need different streams to run at the same time.
  std::uint8_t free_stream(const std::vector<RankId>& members) {
    std::set<std::uint8_t> used;
    for (const RankId rank : members)
      for (const Part& part : parts_[rank]) used.insert(std::get<0>(part));
    std::uint8_t stream = 1;
    while (used.contains(stream)) ++stream;
    if (stream > kStreamsMost)
      throw RunError(fmt::format("a GPU is in more than {} groups at once", kStreamsMost));
    while (workload_.streams.size() <= stream) {
      workload_.slots.push_back(fmt::format("group {}", workload_.streams.size()));
      workload_.streams.push_back(workload_.slots.back());
    }
    return stream;
  }

  void add(const CollectiveGroup& group, const Call& call) {
    const auto index = static_cast<GroupId>(workload_.groups.size());
    const auto known = std::ranges::find(workload_.calls, call);
    const auto made = static_cast<std::uint32_t>(known - workload_.calls.begin());
    if (known == workload_.calls.end()) workload_.calls.push_back(call);
    Group added;
    for (const std::uint32_t gpu : group.gpus) added.members.push_back(rank_of(gpu));
    streams_.push_back(free_stream(added.members));
    const std::uint32_t slot = streams_.back() - 1U;
    for (std::uint32_t group_rank = 0; group_rank < added.members.size(); ++group_rank) {
      const OpKind kind = op_of(call) != CollectiveOp::SendRecv ? OpKind::Collective
                          : group_rank == 0                     ? OpKind::Send
                                                                : OpKind::Recv;
      const RankId rank = added.members[group_rank];
      parts_[rank].emplace_back(streams_.back(), made, kind);
      std::vector<SlotBinding>& slots = workload_.ranks[rank].slots;
      if (slots.size() <= slot) slots.resize(slot + 1);
      slots[slot] = {.group = index, .group_rank = group_rank};
    }
    workload_.groups.push_back(std::move(added));
  }

  // Ranks with the same operations share a program, so that folding can put them in one class.
  void finish() {
    std::map<std::vector<Part>, std::uint32_t> programs;
    for (RankId rank = 0; rank < workload_.ranks.size(); ++rank) {
      std::ranges::sort(parts_[rank]);
      const auto [entry, fresh] =
          programs.try_emplace(parts_[rank], static_cast<std::uint32_t>(workload_.programs.size()));
      workload_.ranks[rank].program = entry->second;
      workload_.ranks[rank].slots.resize(workload_.slots.size());
      if (!fresh) continue;
      Program program{.name = fmt::format("groups {}", entry->second)};
      for (const auto& [stream, call, kind] : parts_[rank])
        program.operations.push_back({.kind = kind,
                                      .stream = stream,
                                      .slot = static_cast<std::uint16_t>(stream - 1),
                                      .payload = call});
      workload_.programs.push_back(std::move(program));
    }
  }

  Workload workload_;
  std::map<std::uint32_t, RankId> ranks_;  // by GPU
  std::vector<std::vector<Part>> parts_;   // by rank
  std::vector<std::uint8_t> streams_;      // by group
};

// Simulates the groups at one size after another: all together, and each class of groups alone.
class Runs {
 public:
  Runs(const Cluster& cluster, const InterferenceQuestion& question)
      : cluster_(cluster),
        question_(question),
        communication_(cluster, question.nccl, question.profile, question.profile_name),
        engine_(make_engine(question.engine)) {}

  std::vector<GroupRow> rows(std::int64_t bytes) {
    calls_.clear();
    std::vector<const CollectiveGroup*> groups;
    for (const CollectiveGroup& group : question_.groups) {
      calls_.push_back(call(group, bytes));
      groups.push_back(&group);
    }
    const Joined joined(groups, calls_);
    const Partition partition = folded(joined.workload());
    const Timeline timeline = run(joined.workload(), partition);
    std::vector<double> ends;
    for (std::size_t i = 0; i < groups.size(); ++i)
      ends.push_back(joined.end_s(i, partition, timeline));
    note_uses();
    std::vector<GroupRow> rows;
    // All groups of a class take equally long, so each class has one row, of its representative.
    for (const GroupClass& same : partition.groups) {
      const std::size_t first = same.representative;
      rows.push_back({.op = op_of(calls_[first]),
                      .algorithm = std::string(algorithm_of(calls_[first])),
                      .groups = same.members,
                      .ranks = question_.groups[first].gpus,
                      .bytes = bytes_of(calls_[first]),
                      .alone_s = alone_s(first),
                      .together_s = ends[first],
                      .shared = shared(first, ends)});
    }
    return rows;
  }

 private:
  struct Use {
    double bytes = 0.0;
    std::vector<std::size_t> groups = {};
  };

  [[nodiscard]] Call call(const CollectiveGroup& group, std::int64_t bytes) const {
    return make_call(group.op, group.bytes.value_or(bytes), question_.dtype,
                     group.algorithm.empty() ? question_.algorithm : group.algorithm);
  }
  [[nodiscard]] Partition folded(const Workload& workload) const {
    // A fold without uncontended loads assumes constant links.
    return fold(cluster_, workload, communication_.get(),
                {.drop_uncontended = !has_timed_links(cluster_.facts())});
  }
  [[nodiscard]] Timeline run(const Workload& workload, const Partition& partition) const {
    return engine_->run(
        {.cluster = cluster_, .workload = workload, .partition = partition, .kernel_seconds = {}});
  }

  // The time of one group without the others.
  [[nodiscard]] double alone_s(std::size_t index) const {
    const std::vector<const CollectiveGroup*> group{&question_.groups[index]};
    const Joined joined(group, std::span(calls_).subspan(index, 1));
    return run(joined.workload(), folded(joined.workload())).makespan_s;
  }

  // Adds up the bytes that each group puts on each link.
  void note_uses() {
    uses_.clear();
    links_.assign(question_.groups.size(), {});
    for (std::size_t i = 0; i < question_.groups.size(); ++i) {
      for (const Phase& phase : communication_.get().phases(calls_[i], question_.groups[i].gpus)) {
        for (const MultiLinkFlow& flow : phase.flows) {
          for (const LinkLoad& load : flow.loads) {
            Use& use = uses_[load.link];
            use.bytes += load.bytes;
            // Groups come in ascending order, so only the last entry can be this group.
            if (use.groups.empty() || use.groups.back() != i) use.groups.push_back(i);
            links_[i].insert(load.link);
          }
        }
      }
    }
  }

  // The link that a group shares with another one and that needs the most time for all its bytes.
  // Its load is this time divided by the time until the last of its groups ends.
  [[nodiscard]] std::optional<SharedLink> shared(std::size_t group,
                                                 const std::vector<double>& ends) const {
    std::optional<SharedLink> busiest;
    double longest = 0.0;
    for (const LinkId id : links_[group]) {
      const Use& use = uses_.at(id);
      const Link& link = cluster_.link(id);
      const double needed_s = use.bytes / link.capacity.value();
      // the tolerance keeps the first of several links that are equal up to rounding
      if (use.groups.size() < 2 || needed_s <= longest * (1.0 + 1e-9)) continue;
      longest = needed_s;
      double end = 0.0;
      for (const std::size_t other : use.groups) end = std::max(end, ends[other]);
      busiest = SharedLink{.name = fmt::format("{}: {} -> {}", to_string(link.kind),
                                               cluster_.name(link.from), cluster_.name(link.to)),
                           .groups = static_cast<std::uint32_t>(use.groups.size()),
                           .load = needed_s / end};
    }
    return busiest;
  }

  const Cluster& cluster_;
  const InterferenceQuestion& question_;
  ChosenModel communication_;
  std::unique_ptr<Engine> engine_;
  std::vector<Call> calls_;  // by group
  std::map<LinkId, Use> uses_;
  std::vector<std::set<LinkId>> links_;  // by group
};

}  // namespace

double GroupRow::busbw_alone() const {
  return static_cast<double>(bytes) / alone_s * bus_bandwidth_factor(op, ranks.size());
}

double GroupRow::busbw_together() const { return busbw_alone() / slowdown(); }

InterferenceStudy study_interference(const Cluster& cluster, const InterferenceQuestion& question) {
  TY_CHECK(!question.groups.empty());
  TY_CHECK(!question.sizes.empty());
  for (const CollectiveGroup& group : question.groups)
    TY_CHECK(group.gpus.size() > 1, group.gpus.size());
  Runs runs(cluster, question);
  InterferenceStudy study;
  // If every group names its size, all sizes of the study give the same rows, so one is enough.
  const bool named = std::ranges::all_of(
      question.groups, [](const CollectiveGroup& group) { return group.bytes.has_value(); });
  for (const std::int64_t bytes :
       std::span(question.sizes).first(named ? 1 : question.sizes.size()))
    for (GroupRow& row : runs.rows(bytes)) study.rows.push_back(std::move(row));
  return study;
}

}  // namespace trainyard
