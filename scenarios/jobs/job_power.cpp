#include "scenarios/jobs/job_power.hpp"

#include <cstddef>
#include <limits>

namespace trainyard {

std::optional<PowerRates> join_rates(std::span<const PowerRates* const> jobs) {
  std::optional<PowerRates> all;
  for (const PowerRates* job : jobs) {
    if (job == nullptr) return {};
    // The rates of hosts, NICs and switches belong to the cluster, so those of the first job serve
    // all.
    if (!all) {
      all = *job;
      continue;
    }
    all->gpus.insert(all->gpus.end(), job->gpus.begin(), job->gpus.end());
    all->kernel_w.insert(all->kernel_w.end(), job->kernel_w.begin(), job->kernel_w.end());
    all->compute_bound.insert(all->compute_bound.end(), job->compute_bound.begin(),
                              job->compute_bound.end());
  }
  return all;
}

void share_gpus(PowerRates& rates) {
  for (GpuRates& gpu : rates.gpus) {
    gpu.idle_w = gpu.waiting_w = rates.idle_gpu_w;
    gpu.limit_w = std::numeric_limits<double>::infinity();
  }
}

double gpus_joules(const Result& run, const PowerTraces& traces, const JobPart& job, double begin_s,
                   double end_s) {
  double joules = 0.0;
  for (std::size_t index = 0; index < traces.gpus.size(); ++index) {
    const RankClass& ranks = run.partition->ranks[index];
    if (ranks.program - job.first_program >= job.programs) continue;  // unsigned: also those before
    joules += ranks.members * traces.gpus[index].between(begin_s, end_s).joules();
  }
  return joules;
}

}  // namespace trainyard
