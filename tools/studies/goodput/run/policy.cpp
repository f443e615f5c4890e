#include "tools/studies/goodput/run/policy.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace trainyard {

namespace {

struct Place {
  std::int64_t replica;
  std::int64_t stage;
  std::int64_t index;  // among the nodes of the stage
};

std::int64_t nodes_of_replica(const Job& job) {
  return std::max<std::int64_t>(1, std::llround(job.nodes_per_replica));
}

// With 8 nodes for 4 stages, slot 13 is node 5 of replica 1: index 1 of stage 2.
Place place_of(const Job& job, std::int64_t slot) {
  const std::int64_t nodes = nodes_of_replica(job);
  const std::int64_t within = slot % nodes;
  const std::int64_t of_stage = std::max<std::int64_t>(1, nodes / job.stages);
  return {
      .replica = slot / nodes, .stage = within * job.stages / nodes, .index = within % of_stage};
}

// Slots s and s + half are twins. A second insertion of the same remainder means that both are
// lost.
bool has_every_twin(const Job& job, const std::vector<std::int64_t>& empty) {
  const std::int64_t half = job.nodes() / 2;
  std::set<std::int64_t> lost;
  return std::ranges::all_of(empty,
                             [&](std::int64_t slot) { return lost.insert(slot % half).second; });
}

// No two neighbours of a ring of stages are missing: the stage before a missing one computes its
// layers. A pipeline of one stage is its own neighbour, and can do without none.
bool has_every_neighbour(const Job& job, const std::vector<std::int64_t>& empty) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> lost;
  for (const std::int64_t slot : empty) {
    const Place place = place_of(job, slot);
    lost.emplace(place.replica, place.index, place.stage);
  }
  return std::ranges::none_of(lost, [&](const auto& one) {
    const auto& [replica, index, stage] = one;
    return lost.contains({replica, index, (stage + 1) % job.stages});
  });
}

// Every node of a stage has a peer in another replica.
bool has_every_stage(const Job& job, const std::vector<std::int64_t>& empty) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> lost;
  std::set<std::pair<std::int64_t, std::int64_t>> parts;
  for (const std::int64_t slot : empty) {
    const Place place = place_of(job, slot);
    lost.emplace(place.stage, place.index, place.replica);
    parts.emplace(place.stage, place.index);
  }
  return std::ranges::all_of(parts, [&](const auto& part) {
    // The set is ordered by stage and index, so the replicas that lack this part lie side by side.
    const auto begin = lost.lower_bound({part.first, part.second, 0});
    const auto end = lost.lower_bound({part.first, part.second + 1, 0});
    return std::distance(begin, end) < job.replicas;
  });
}

// A replica that lacks a node contributes nothing, however many nodes it lacks.
bool has_enough_replicas(const Job& job, const std::vector<std::int64_t>& empty) {
  std::set<std::int64_t> lost;
  for (const std::int64_t slot : empty) lost.insert(place_of(job, slot).replica);
  return static_cast<std::int64_t>(lost.size()) <= job.backup_replicas;
}

}  // namespace

bool trains_on(FailurePolicy policy) {
  return policy != FailurePolicy::Restart && policy != FailurePolicy::Elastic;
}

bool can_do_without(const Job& job, const std::vector<std::int64_t>& empty) {
  switch (job.policy) {
    case FailurePolicy::Restart:
    case FailurePolicy::Elastic:
      break;
    case FailurePolicy::Mirrored:
      return has_every_twin(job, empty);
    case FailurePolicy::Redundant:
      return has_every_neighbour(job, empty);
    case FailurePolicy::Reroute:
      return has_every_stage(job, empty);
    case FailurePolicy::Backup:
      return has_enough_replicas(job, empty);
  }
  return false;
}

bool copies_survive(std::int64_t copies, std::int64_t nodes,
                    const std::vector<std::int64_t>& slots) {
  if (copies == 0) return true;
  const std::int64_t parts = std::max<std::int64_t>(1, nodes / copies);
  std::map<std::int64_t, std::int64_t> lost;
  return std::ranges::all_of(slots,
                             [&](std::int64_t slot) { return ++lost[slot % parts] < copies; });
}

std::int64_t stage_of(const Job& job, std::int64_t slot) {
  return place_of(job, slot % job.nodes()).stage;
}

std::vector<std::int64_t> missing_stages(const Job& job, const std::vector<std::int64_t>& empty) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> replicas;  // by stage and index
  std::map<std::int64_t, std::int64_t> most;                               // by stage
  for (const std::int64_t slot : empty) {
    const Place place = place_of(job, slot);
    const std::int64_t count = ++replicas[{place.stage, place.index}];
    most[place.stage] = std::max(most[place.stage], count);
  }
  std::vector<std::int64_t> stages;
  for (const auto& [stage, count] : most)
    stages.insert(stages.end(), static_cast<std::size_t>(count), stage);
  return stages;
}

}  // namespace trainyard
