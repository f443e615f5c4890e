#include "scenarios/simulate/stage_report.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <string_view>

namespace trainyard {

namespace {

// "1 link", "12 links"
std::string counted(std::size_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace

template <class Sentence>
void StageReport::ended(const Sentence& sentence) {
  if (!receiver_) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
  receiver_(sentence(), took.count());
  start_ = std::chrono::steady_clock::now();
}

void StageReport::built(const Cluster& cluster) {
  ended([&] {
    return fmt::format("builds a cluster of {} ({}, {})", counted(cluster.gpus().size(), "GPU"),
                       counted(cluster.device_count(), "device"),
                       counted(cluster.wiring().link_count(), "link"));
  });
}

void StageReport::lowered(const Workload& workload) {
  ended([&] {
    std::size_t operations = 0;
    for (const Program& program : workload.programs) operations += program.operations.size();
    return fmt::format("lowers the step to {} with {} for {}",
                       counted(workload.programs.size(), "program"),
                       counted(operations, "operation"), counted(workload.ranks.size(), "rank"));
  });
}

void StageReport::folded(const Partition& partition) {
  ended([&] {
    return fmt::format("folds {} to {}", counted(partition.class_of_rank.size(), "rank"),
                       partition.ranks.size() == 1
                           ? "1 rank class"
                           : fmt::format("{} rank classes", partition.ranks.size()));
  });
}

void StageReport::priced(const std::vector<Cost>& kernels) {
  ended([&] { return "prices " + counted(kernels.size(), "kernel"); });
}

void StageReport::simulated(const Timeline& timeline) {
  ended([&] {
    const std::uint64_t repeated = timeline.counters.repeated;
    return "simulates " + counted(timeline.counters.events, "event") +
           (repeated == 0
                ? ""
                : ", and repeats " + counted(repeated, "operation") + " of the steady state");
  });
}

void StageReport::found_figures() {
  ended([] { return std::string("finds the peaks of memory and the breakdown of time"); });
}

}  // namespace trainyard
