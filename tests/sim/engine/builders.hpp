// Small workloads and clusters for the tests of the engine.
//
//    Script script({10e9, 4e9});                       // links 0 and 1, bytes per second
//    const auto program = script.program("sender");
//    script.compute(program, 0.5);
//    Timeline timeline = script.run(*make_engine("simgrid"));
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/blueprint.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/simgrid/simgrid_engine.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard::test {

inline constexpr double kAgreement = 1e-9;  // relative; the one tolerance between engines
inline constexpr double kNoCap = std::numeric_limits<double>::infinity();

// The phases of a call for a group on these GPUs.
using PhasesByPlace = std::function<std::vector<Phase>(std::span<const std::uint32_t> gpus)>;

// A communication model with phases by the name of the call's algorithm.
class TableModel final : public CommunicationModel {
 public:
  std::map<std::string, PhasesByPlace> table;
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override {
    return table.at(std::string(algorithm_of(call)))(gpus);
  }
};

// GPUs around one switch. Link i goes from the switch to GPU i in the first half, and to the switch
// in the second.
inline Cluster star_cluster(std::vector<double> capacities) {
  if (capacities.size() % 2 == 1) capacities.push_back(1e9);
  const std::size_t gpus = std::max<std::size_t>(1, capacities.size() / 2);
  capacities.resize(2 * gpus, 1e9);
  Blueprint blueprint;
  const DeviceId hub = blueprint.add({.kind = DeviceKind::NvSwitch, .node = 0}, "switch");
  std::vector<DeviceId> devices;
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    const auto index = static_cast<std::int32_t>(gpu);
    devices.push_back(blueprint.add({.kind = DeviceKind::Gpu, .node = 0, .index = index},
                                    "gpu " + std::to_string(gpu)));
  }
  const auto wire = [&](DeviceId from, DeviceId to, double capacity) {
    blueprint.link(from, to,
                   {.kind = LinkKind::NvLink,
                    .capacity = BytesPerSecond{capacity},
                    .nominal = BytesPerSecond{capacity}});
  };
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) wire(hub, devices[gpu], capacities[gpu]);
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) wire(devices[gpu], hub, capacities[gpus + gpu]);
  ClusterFacts facts;
  facts.name = "star";
  facts.nodes = 1;
  facts.gpus_per_node = static_cast<std::uint32_t>(gpus);
  return Cluster(facts, std::move(blueprint).wiring(), devices, {});
}

struct Placement {
  std::uint8_t stream = 0;
  std::vector<OpIndex> after = {};
  std::string name = "work";
  std::int32_t microbatch = -1;
};

class Script {
 public:
  explicit Script(std::vector<double> capacities) : cluster_(star_cluster(std::move(capacities))) {
    workload_.streams = {"compute", "communication", "more communication"};
    workload_.slots = {"slot 0", "slot 1", "slot 2", "slot 3"};
  }

  std::uint32_t program(std::string name) {
    workload_.programs.emplace_back();
    workload_.programs.back().name = std::move(name);
    return static_cast<std::uint32_t>(workload_.programs.size() - 1);
  }

  OpIndex compute(std::uint32_t program, double seconds, const Placement& placement = {}) {
    workload_.kernels.emplace_back(MemoryBound{});
    kernel_seconds_.push_back(seconds);
    return add(program, OpKind::Compute, 0, static_cast<std::uint32_t>(kernel_seconds_.size() - 1),
               placement);
  }
  OpIndex delay(std::uint32_t program, double seconds, const Placement& placement = {}) {
    workload_.delays.emplace_back(seconds);
    return add(program, OpKind::Delay, 0, static_cast<std::uint32_t>(workload_.delays.size() - 1),
               placement);
  }
  OpIndex communicate(std::uint32_t program, OpKind kind, std::uint16_t slot, std::uint32_t call,
                      const Placement& placement = {}) {
    return add(program, kind, slot, call, placement);
  }

  // A call that loads the same links for every group.
  std::uint32_t call(CollectiveOp op, std::vector<Phase> phases) {
    return call_by_place(op, [phases = std::move(phases)](auto) { return phases; });
  }
  std::uint32_t call_by_place(CollectiveOp op, PhasesByPlace phases) {
    const auto index = static_cast<std::uint32_t>(workload_.calls.size());
    const std::string name = std::to_string(index);
    communication_.table[name] = std::move(phases);
    workload_.calls.push_back(make_call(op, 1, DataType::Bf16, name));
    return index;
  }

  RankId rank(std::uint32_t program) {
    Rank rank;
    rank.program = program;
    rank.gpu = static_cast<std::uint32_t>(workload_.ranks.size() % cluster_.gpus().size());
    rank.slots.resize(workload_.slots.size());
    workload_.ranks.push_back(std::move(rank));
    return static_cast<RankId>(workload_.ranks.size() - 1);
  }

  struct Member {
    RankId rank = 0;
    std::uint16_t slot = 0;
  };
  GroupId group(const std::vector<Member>& members) {
    const auto id = static_cast<GroupId>(workload_.groups.size());
    workload_.groups.emplace_back();
    for (std::uint32_t group_rank = 0; group_rank < members.size(); ++group_rank) {
      workload_.groups.back().members.push_back(members[group_rank].rank);
      workload_.ranks[members[group_rank].rank].slots.at(members[group_rank].slot) = {id,
                                                                                      group_rank};
    }
    return id;
  }

  void add_fault(TimedFault fault) {
    ClusterFacts facts = cluster_.facts();
    facts.timed_faults.push_back(std::move(fault));
    cluster_ = Cluster(std::move(facts), cluster_.wiring(), cluster_.gpus(), {});
  }

  [[nodiscard]] Partition fold_it(bool folded) const {
    return fold(cluster_, workload_, communication_, {.enabled = folded});
  }
  [[nodiscard]] Timeline run(const Engine& engine, const Partition& partition) const {
    return engine.run({cluster_, workload_, partition, kernel_seconds_, {}});
  }
  [[nodiscard]] Timeline run(const Engine& engine, bool folded = false) const {
    return run(engine, fold_it(folded));
  }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] Workload& workload() { return workload_; }
  [[nodiscard]] std::vector<double>& kernel_seconds() { return kernel_seconds_; }

 private:
  OpIndex add(std::uint32_t program_index, OpKind kind, std::uint16_t slot, std::uint32_t payload,
              const Placement& placement) {
    Program& program = workload_.programs.at(program_index);
    Operation operation;
    operation.kind = kind;
    operation.stream = placement.stream;
    operation.slot = slot;
    operation.payload = payload;
    operation.microbatch = placement.microbatch;
    operation.name = static_cast<std::uint16_t>(workload_.names.size());
    workload_.names.push_back(placement.name);
    program.append(operation, placement.after);
    return static_cast<OpIndex>(program.operations.size() - 1);
  }

  Cluster cluster_;
  Workload workload_;
  TableModel communication_;
  std::vector<double> kernel_seconds_;
};

// One flow with bytes on links.
inline MultiLinkFlow link_flow(std::vector<LinkLoad> loads, double rate_cap = kNoCap) {
  return {std::move(loads), rate_cap};
}
inline Phase phase(double latency_s, std::vector<MultiLinkFlow> link_flows) {
  return {Seconds{latency_s}, std::move(link_flows)};
}

// One transfer between two separate ranks.
struct Transfer {
  double start_s = 0.0;
  MultiLinkFlow link_flow;
  double latency_s = 0.0;
};

// A workload in which every transfer is a send, rank 2i, and its receive, rank 2i + 1. The send is
// the operation after the delay: operation 1 of its class.
inline Script transfers_script(const std::vector<double>& capacities,
                               const std::vector<Transfer>& transfers) {
  Script script(capacities);
  for (const Transfer& transfer : transfers) {
    const auto call =
        script.call(CollectiveOp::SendRecv, {phase(transfer.latency_s, {transfer.link_flow})});
    const auto sender = script.program("sender");
    script.delay(sender, transfer.start_s);
    script.communicate(sender, OpKind::Send, 0, call);
    const auto receiver = script.program("receiver");
    script.communicate(receiver, OpKind::Recv, 0, call);
    const RankId from = script.rank(sender);
    const RankId to = script.rank(receiver);
    script.group({{from, 0}, {to, 0}});
  }
  return script;
}

inline std::vector<double> ends_of(const Timeline& timeline) {
  std::vector<double> ends;
  for (std::size_t rank = 0; rank < timeline.classes.size(); rank += 2) {
    ends.push_back(timeline.classes[rank].end_s[1]);
  }
  return ends;
}

// The end time of each transfer.
inline std::vector<double> ends_of(const Engine& engine, const std::vector<double>& capacities,
                                   const std::vector<Transfer>& transfers) {
  return ends_of(transfers_script(capacities, transfers).run(engine));
}

inline std::unique_ptr<Engine> simgrid_without_components() {
  return make_simgrid_engine({.components = false});
}

}  // namespace trainyard::test
