#include "sim/contention/joint_graph.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/concurrency.hpp"
#include "sim/contention/group_shapes.hpp"

namespace trainyard {

namespace {

// A cluster as a memo input for values that follow from its wiring alone: rates may differ.
// Clusters that differ only in rates share their router (Cluster::with_rates), so its address
// stands for the wiring.
struct OneWiring {
  Cluster cluster;
  bool operator==(const OneWiring& other) const {
    return &cluster.router() == &other.cluster.router();
  }
};

// Shapes as a memo input.
struct SameShapes {
  std::shared_ptr<const GroupShapes> shapes;
  bool operator==(const SameShapes& other) const {
    return shapes == other.shapes || *shapes == *other.shapes;
  }
};

// A group of most of a large cluster's GPUs. Its query takes as long as all other work, so a second
// thread does it. Queries for groups of fewer GPUs are fast.
std::optional<GroupId> group_without_like(const Cluster& cluster, const Workload& workload) {
  if (!is_large(cluster) || workload.groups.empty()) return std::nullopt;
  const auto largest = std::ranges::max_element(
      workload.groups, {}, [](const Group& group) { return group.members.size(); });
  if (2 * largest->members.size() <= cluster.gpus().size()) return std::nullopt;
  return static_cast<GroupId>(largest - workload.groups.begin());
}

class Joiner {
 public:
  Joiner(const Cluster& cluster, const Workload& workload, const CommunicationModel& communication,
         const FoldCache& known)
      : cluster_(cluster),
        workload_(workload),
        communication_(communication),
        known_(known),
        memo_(known.memo != nullptr ? *known.memo : once_) {}

  // Returns nothing where a flow loads parallel links unequally.
  std::optional<Joined> joined() {
    if (const auto large = group_without_like(cluster_, workload_)) {
      // The large group is a pattern by itself whatever the placements are, so its query need not
      // wait for them.
      PlacementInputs ground = this->ground();
      ground.unique_group = large;
      auto& answers = answers_.emplace(cluster_, workload_, communication_, ground, traffic_);
      run_concurrently(
          true, [&] { answers.query_ahead(*large); }, [&] { placed_ = kept(ground); });
    } else {
      placed_ = memo_.get<GroupPlacements>([&] { return place_groups(workload_, ground()); },
                                           OneWiring{cluster_}, known_.calls);
      answers_.emplace(cluster_, workload_, communication_, ground_of(*placed_), traffic_);
    }
    return laid_out();
  }

  // Builds the graph with every link by itself.
  Joined joined_link_by_link() {
    const PlacementInputs ground{.calls = calls(),
                                 .parallel = std::make_shared<ParallelLinkIndex>(cluster_, true)};
    placed_ = kept(ground);
    answers_.emplace(cluster_, workload_, communication_, ground, traffic_);
    return laid_out().value();
  }

 private:
  [[nodiscard]] std::shared_ptr<const GroupCalls> calls() const {
    if (const auto analysis = known_.calls.analysis.lock())
      return std::make_shared<const GroupCalls>(workload_, *analysis);
    return std::make_shared<const GroupCalls>(workload_, ProgramAnalysis(workload_));
  }
  [[nodiscard]] PlacementInputs ground() const {
    return {
        .calls = calls(),
        .parallel = std::make_shared<ParallelLinkIndex>(cluster_, false),
        .places = known_.places ? known_.places : std::make_shared<IsomorphicPlacements>(cluster_)};
  }
  [[nodiscard]] static PlacementInputs ground_of(const GroupPlacements& placed) {
    return {.calls = placed.calls, .parallel = placed.parallel, .places = placed.places};
  }
  [[nodiscard]] std::shared_ptr<const GroupPlacements> kept(const PlacementInputs& ground) const {
    return std::make_shared<const GroupPlacements>(place_groups(workload_, ground));
  }

  std::optional<Joined> laid_out() {
    answers_->query_all(*placed_);
    // A group that does not match its pattern becomes a pattern by itself, and the layout is
    // repeated. It ends because each round has more patterns.
    while (answers_->hold()) {
      const auto shapes = answers_->shapes();
      const auto layout =
          memo_.get<GraphLayout>([&] { return lay_out(cluster_, workload_, placed_, *shapes); },
                                 placed_, SameShapes{shapes});
      if (layout->graph) return Joined{layout->graph, std::move(traffic_)};
      for (const GroupId group : layout->mismatched) answers_->query_alone(group);
    }
    return std::nullopt;
  }

  const Cluster& cluster_;
  const Workload& workload_;
  const CommunicationModel& communication_;
  const FoldCache& known_;
  Memo once_{0};
  Memo& memo_;
  std::shared_ptr<const GroupPlacements> placed_;
  GroupTraffic traffic_;
  std::optional<GroupAnswers> answers_;
};

}  // namespace

// Parallel links are not interchangeable where a communication model names switches. The graph then
// names every link.
Joined join(const Cluster& cluster, const Workload& workload,
            const CommunicationModel& communication, const FoldCache& known) {
  if (auto joined = Joiner(cluster, workload, communication, known).joined())
    return *std::move(joined);
  return join_link_by_link(cluster, workload, communication);
}

Joined join_link_by_link(const Cluster& cluster, const Workload& workload,
                         const CommunicationModel& communication) {
  return Joiner(cluster, workload, communication, {}).joined_link_by_link();
}

bool is_large(const Cluster& cluster) {
  constexpr std::size_t kManyLinks = 100'000;
  return cluster.links().size() >= kManyLinks;
}

}  // namespace trainyard
