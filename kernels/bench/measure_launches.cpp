#include <fmt/format.h>

#include <chrono>

#include "kernels/bench/measure.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { (void)cudaGraphDestroy(graph); }
};
struct DestroyGraphExec {
  void operator()(cudaGraphExec_t graph) const { (void)cudaGraphExecDestroy(graph); }
};
using GraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraphExec>;

// Launches kernels that count themselves, so that it is known that all of them ran.
class Counter {
 public:
  explicit Counter(const Bench& bench) : bench_(bench), memory_(sizeof(unsigned)) {
    check(cudaMemsetAsync(memory_.get(), 0, memory_.bytes(), bench.watch.stream()),
          "clearing a counter");
    bench.watch.wait();
  }
  void launch(std::int64_t times) const {
    for (std::int64_t i = 0; i < times; ++i)
      check(launch_count(static_cast<unsigned*>(memory_.get()), bench_.watch.stream()),
            "launching a kernel");
  }
  [[nodiscard]] std::int64_t read() const {
    bench_.watch.wait();
    unsigned count = 0;
    check(cudaMemcpy(&count, memory_.get(), sizeof count, cudaMemcpyDeviceToHost),
          "reading a counter");
    return count;
  }

 private:
  const Bench& bench_;
  DeviceMemory memory_;
};

GraphExec capture(const Bench& bench, const Counter& counter, std::int64_t count) {
  check(cudaStreamBeginCapture(bench.watch.stream(), cudaStreamCaptureModeThreadLocal),
        "capturing a graph");
  counter.launch(count);
  cudaGraph_t captured = nullptr;
  check(cudaStreamEndCapture(bench.watch.stream(), &captured), "capturing a graph");
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph> graph(captured);
  cudaGraphExec_t made = nullptr;
  check(cudaGraphInstantiate(&made, captured, 0), "instantiating a graph");
  return GraphExec(made);
}

// CPU time to queue all kernels in the stream.
std::vector<double> issue_times_us(const Bench& bench, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int run = 0; run < timed_runs; ++run) {
    bench.watch.wait();
    const auto start = Clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  bench.watch.wait();
  return times;
}

}  // namespace

MeasuredRow measure_launches(const Bench& bench, const Launches& launches) {
  const Counter counter(bench);
  GraphExec graph;
  if (launches.style == LaunchStyle::Graph) graph = capture(bench, counter, launches.count);
  const auto run = [&] {
    if (graph)
      check(cudaGraphLaunch(graph.get(), bench.watch.stream()), "launching a graph");
    else
      counter.launch(launches.count);
  };
  run();
  if (const std::int64_t counted = counter.read(); counted != launches.count)
    throw WrongResult(fmt::format("{} of {} kernels ran", counted, launches.count));
  bench.watch.warm_up(run);
  std::vector<double> times = launches.style == LaunchStyle::Issue
                                  ? issue_times_us(bench, run)
                                  : bench.watch.times_us(run, timed_runs);
  for (double& time : times) time /= static_cast<double>(launches.count);
  return {launches, spread_of(std::move(times)), ""};
}

}  // namespace trainyard::bench
