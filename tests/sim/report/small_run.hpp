// A run computed by hand: two GPUs, two pipeline stages, two microbatches:
//
//    time      0    1    1.25   2   2.25   2.75   4.25   4.75   5
//    rank 0    F0   F1 ........ |  wait for rank 1 |  all_reduce | optimizer
//      sends        0 ->       1 ->
//    rank 1    bubble    F0 ..........  F1 ........ | all_reduce | optimizer
//
// F is 1 s on rank 0 and 1.5 s on rank 1; a message takes 0.25 s, the all_reduce of gradients 0.5
// s.
#pragma once

#include <utility>
#include <vector>

#include "sim/cluster/blueprint.hpp"
#include "sim/report/run_view.hpp"
#include "tests/sim/timeline/hand_run.hpp"

namespace trainyard {

inline Cluster two_gpus() {
  Blueprint blueprint;
  for (std::int32_t gpu = 0; gpu < 2; ++gpu)
    blueprint.add({.kind = DeviceKind::Gpu, .node = 0, .index = gpu});
  blueprint.cable(0, 1,
                  {.kind = LinkKind::NvLink,
                   .capacity = BytesPerSecond{1e9},
                   .nominal = BytesPerSecond{1e9},
                   .latency = Seconds{1e-6}});
  ClusterFacts facts;
  facts.name = "two GPUs";
  facts.node = "pair";
  facts.gpu = "test_gpu";
  facts.nodes = 1;
  facts.gpus_per_node = 2;
  facts.gpu_memory = Bytes{1000};
  return Cluster(facts, std::move(blueprint).wiring(), {0, 1}, {});
}

inline HandRun two_stages() {
  constexpr auto kPipeline = GroupKind::Pipeline;
  constexpr auto kData = GroupKind::Data;
  HandRun run(2);
  run.workload.names = {"forward", "send", "recv", "reduce gradients", "adam"};
  const auto named = [&run](OpIndex op, std::uint16_t name, std::uint32_t rank) {
    run.workload.programs[rank].operations.edit()[op].name = name;
    return op;
  };
  for (std::uint32_t rank = 0; rank < 2; ++rank) run.resident(500 + 100 * rank, 0, rank);
  const Effect keep{.bytes = 50, .category = 1};
  const Effect drop{.at_end = true, .bytes = -50, .category = 1};
  for (std::int32_t m = 0; m < 2; ++m) {
    const double t = m;
    const auto f = run.compute({.ready_s = t, .end_s = t + 1, .effects = {keep}, .microbatch = m});
    named(run.send({.ready_s = t + 1,
                    .end_s = t + 1.25,
                    .stream = 2,
                    .after = {f},
                    .kind = kPipeline,
                    .effects = {drop},
                    .microbatch = m}),
          1, 0);
  }
  for (std::int32_t m = 0; m < 2; ++m) {
    const double t = m;
    const auto in = named(run.recv({.ready_s = t * 1.25,
                                    .start_s = t + 1,
                                    .end_s = t + 1.25,
                                    .stream = 2,
                                    .kind = kPipeline,
                                    .microbatch = m},
                                   1),
                          2, 1);
    const double start_s = 1.25 + 1.5 * t;
    run.compute({.ready_s = start_s,
                 .end_s = start_s + 1.5,
                 .after = {in},
                 .effects = {keep, drop},
                 .microbatch = m},
                1);
  }
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const OpIndex last = rank == 0 ? 2 : 3;
    const auto sync = named(run.collective({.ready_s = rank == 0 ? 2.0 : 4.25,
                                            .start_s = 4.25,
                                            .end_s = 4.75,
                                            .stream = 3,
                                            .after = {last},
                                            .kind = kData},
                                           rank),
                            3, rank);
    named(run.compute({.ready_s = 4.75,
                       .end_s = 5.0,
                       .after = {sync},
                       .work = WorkClass::Optimizer,
                       .payload = 1},
                      rank),
          4, rank);
  }
  for (LinkId link = 0; link < 2; ++link) {
    run.partition.links.push_back({.representative = link, .members = 1});
    run.partition.class_of_link.push_back(link);
  }
  FlowClass message;
  message.payload_bytes = 1024;
  message.weights = {{.link_class = 0, .weight = 1.0, .bytes = 1024}};
  FlowClass ring;
  ring.payload_bytes = 1 << 20;
  ring.weights = {{.link_class = 0, .weight = 1.0, .bytes = 1 << 20},
                  {.link_class = 1, .weight = 1.0, .bytes = 1 << 20}};
  run.partition.flows = {message, ring};
  run.timeline.flows = {{.flow_class = 0, .start_s = 1.0, .end_s = 1.25},
                        {.flow_class = 0, .start_s = 2.0, .end_s = 2.25},
                        {.flow_class = 1, .start_s = 4.25, .end_s = 4.75}};
  run.timeline.links = {{.bytes = 2 * 1024 + (1 << 20), .busy_s = 1.0, .peak_utilisation = 0.75},
                        {.bytes = 1 << 20, .busy_s = 0.5, .peak_utilisation = 0.5}};
  run.timeline.counters = {.operations = 12, .activities = 3, .events = 20};
  run.bind_groups();
  return run;
}

struct SmallRun {
  SmallRun() {
    facts.title = "two stages on two GPUs";
    facts.engine = "ideal";
    facts.tokens_per_step = 1000.0;
    facts.model_flops = Flops{5e13};
    facts.model_flops_other = Flops{6e13};
    facts.hardware_flops = Flops{6.5e13};
    facts.hardware_flops_other = Flops{7.5e13};
    facts.flops_convention = "causal";
    facts.peaks = {{"bf16", FlopsPerSecond{1e13}}};
    facts.gpu_memory = Bytes{1000};
    facts.published = {
        {.figure = "step_time_s",
         .title = "step time",
         .unit = "s",
         .published = 4.0,
         .predicted = 5.0},
        {.figure = "mfu", .title = "MFU", .unit = "", .published = 0.4, .predicted = 0.5}};
    facts.published_source = "worked by hand";
    facts.approximations = {
        {.name = "kernel_extrapolated", .count = 2, .sentence = "Two kernels are guesses."}};
  }

  [[nodiscard]] RunView view() const {
    return {.facts = facts,
            .cluster = cluster,
            .workload = run.workload,
            .partition = run.partition,
            .selected_algorithms = selected_algorithms,
            .timeline = run.timeline,
            .kernel_costs = costs};
  }

  HandRun run = two_stages();
  SelectedAlgorithms selected_algorithms;
  Cluster cluster = two_gpus();
  RunFacts facts;
  std::vector<Cost> costs{{.time = Seconds{1.0}, .provenance = Provenance::Measured},
                          {.time = Seconds{0.25}, .provenance = Provenance::Extrapolated}};
};

}  // namespace trainyard
