#include "scenarios/simulate/device_kinds.hpp"

#include <map>
#include <numeric>
#include <utility>

namespace trainyard {

namespace {

// Copies of the first `count` kernels for each kind but the usual one: where they begin, by kind.
std::map<std::string, std::uint32_t> copy_kernels(Workload& workload, const Cluster& cluster,
                                                  std::vector<std::string>& gpu_of_kernel) {
  const std::size_t count = workload.kernels.size();
  std::map<std::string, std::uint32_t> first{{cluster.facts().gpu, 0}};
  for (const auto& [profile, memory] : cluster.facts().mixed_gpus) {
    if (!first.try_emplace(profile, static_cast<std::uint32_t>(workload.kernels.size())).second)
      continue;
    for (std::size_t kernel = 0; kernel < count; ++kernel)
      workload.kernels.push_back(Kernel(workload.kernels[kernel]));
    gpu_of_kernel.resize(workload.kernels.size(), profile);
  }
  return first;
}

// Of `count` kernels that there are of each kind.
void move_kernels(Program& program, std::size_t count, std::uint32_t first) {
  if (first == 0) return;
  if (program.kernels.empty()) {
    program.kernels.resize(count);
    std::iota(program.kernels.begin(), program.kernels.end(), 0U);
  }
  for (std::uint32_t& kernel : program.kernels) kernel += first;
}

}  // namespace

Specialised specialise(Workload given, const Cluster& cluster) {
  Specialised result{.workload = std::move(given)};
  auto& [workload, gpu_of_kernel] = result;
  gpu_of_kernel.assign(workload.kernels.size(), cluster.facts().gpu);
  if (!cluster.has_mixed_gpus()) return result;
  const std::size_t count = workload.kernels.size();
  const auto first = copy_kernels(workload, cluster, gpu_of_kernel);
  const std::vector<Program> plain = workload.programs;
  std::map<std::pair<std::uint32_t, GpuKind>, std::uint32_t> made;
  std::vector<bool> taken(plain.size(), false);
  for (Rank& rank : workload.ranks) {
    const std::uint32_t from = rank.program;
    const GpuKind kind = cluster.gpu_kind(rank.gpu);
    const auto [entry, fresh] = made.try_emplace({from, kind}, from);
    if (fresh) {
      if (taken[from]) {  // another kind has the program's own place
        entry->second = static_cast<std::uint32_t>(workload.programs.size());
        workload.programs.push_back(plain[from]);
        workload.programs.back().name += " on " + kind.profile;
      }
      taken[from] = true;
      move_kernels(workload.programs[entry->second], count, first.at(kind.profile));
    }
    rank.program = entry->second;
  }
  return result;
}

}  // namespace trainyard
