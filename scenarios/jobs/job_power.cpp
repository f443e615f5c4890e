#include "scenarios/jobs/job_power.hpp"

#include <limits>
#include <utility>

namespace trainyard {

std::optional<PowerRates> join_rates(std::span<const PowerRates* const> jobs) {
  std::optional<PowerRates> all;
  for (const PowerRates* job : jobs) {
    if (job == nullptr) return {};
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

JobsPower power_between(const Result& run, std::span<const JobPart> jobs, double begin_s,
                        double end_s) {
  const RunView view = run.view();
  const PowerTraces traces =
      between(power_traces(view.cluster, view.workload, view.partition, view.timeline, *view.power),
              begin_s, end_s);
  const double seconds = end_s - begin_s;
  JobsPower power{.gpus_w = std::vector<double>(jobs.size(), 0.0),
                  .cluster_w = traces.cluster.joules() / seconds,
                  .peaks = power_peaks(traces)};
  for (std::size_t index = 0; index < traces.gpus.size(); ++index) {
    const RankClass& ranks = view.partition.ranks[index];
    std::size_t job = 0;
    while (ranks.program >= jobs[job].first_program + jobs[job].programs) ++job;
    power.gpus_w[job] += ranks.members * traces.gpus[index].joules() / seconds;
  }
  return power;
}

}  // namespace trainyard
