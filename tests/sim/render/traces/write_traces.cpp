// Writes the traces that the test trace_loads opens in Perfetto's engine: the run computed by hand,
// and a long one with thousands of messages at times that are not whole nanoseconds.
//
//    write_traces DIRECTORY [MICROBATCHES]
#include <cstdlib>
#include <filesystem>

#include "sim/render/traces/chrome_trace.hpp"
#include "sim/render/traces/perfetto/perfetto_trace.hpp"
#include "tests/sim/report/small_run.hpp"

namespace trainyard {
namespace {

// A series of forwards on rank 0, each of which is sent to rank 1, whose kernels are slower. Some
// messages take no time.
HandRun long_run(std::int32_t microbatches) {
  constexpr double kThird = 1e-6 / 3.0;
  constexpr Effect kKeep{.bytes = 64, .category = 1};
  constexpr Effect kDrop{.at_end = true, .bytes = -64, .category = 1};
  HandRun run(2);
  run.workload.names = {"forward"};
  double sender_s = 0.0;
  double receiver_s = 0.0;
  double wire_s = 0.0;
  for (std::int32_t m = 0; m < microbatches; ++m) {
    const double end_s = sender_s + kThird * (1 + m % 7);
    const auto f =
        run.compute({.ready_s = sender_s, .end_s = end_s, .effects = {kKeep}, .microbatch = m});
    const double start_s = std::max(end_s, wire_s);
    const double arrival_s = start_s + kThird * (m % 3);
    run.send({.ready_s = start_s,
              .end_s = arrival_s,
              .stream = 2,
              .after = {f},
              .kind = GroupKind::Pipeline,
              .effects = {kDrop},
              .microbatch = m});
    const auto in = run.recv({.ready_s = wire_s,
                              .start_s = start_s,
                              .end_s = arrival_s,
                              .stream = 2,
                              .kind = GroupKind::Pipeline,
                              .microbatch = m},
                             1);
    const double begin_s = std::max(arrival_s, receiver_s);
    receiver_s = begin_s + kThird * 5.1;
    run.compute({.ready_s = begin_s,
                 .end_s = receiver_s,
                 .after = {in},
                 .effects = {kKeep, kDrop},
                 .microbatch = m},
                1);
    run.timeline.flows.push_back({.flow_class = 0, .start_s = start_s, .end_s = arrival_s});
    sender_s = end_s;
    wire_s = arrival_s;
  }
  const HandRun small = two_stages();
  run.partition.links = small.partition.links;
  run.partition.flows = small.partition.flows;
  run.timeline.links = small.timeline.links;
  return run;
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) {
  using namespace trainyard;
  if (argc < 2) return EXIT_FAILURE;
  const std::filesystem::path directory = argv[1];
  SmallRun run;
  write_chrome_trace(run.view(), directory / "small.json", {});
  write_perfetto_trace(run.view(), directory / "small.pftrace", {});
  run.run = long_run(argc > 2 ? std::atoi(argv[2]) : 5000);
  write_chrome_trace(run.view(), directory / "long.json.gz", {});
  write_perfetto_trace(run.view(), directory / "long.pftrace.gz", {});
  return EXIT_SUCCESS;
}
