#include "scenarios/run/kernel_table.hpp"

#include "scenarios/run/approximations.hpp"
#include "scenarios/run/device_kinds.hpp"
#include "scenarios/run/interference.hpp"
#include "scenarios/run/run.hpp"

namespace trainyard {

std::vector<KernelRow> kernel_table(const Scenario& scenario, const Cluster& cluster) {
  Workload workload = scenario_workload(scenario, cluster);
  const std::vector<std::string> gpu_of_kernel = specialise(workload, cluster);
  KernelPricings pricings(kernel_software(scenario));
  const bool keeps_sms = scenario.interference && exchanges_rows(workload);
  const std::vector<KernelPrice> prices =
      kernel_prices(workload, gpu_of_kernel, pricings, keeps_sms);
  const std::vector<bool> used = kernels_used(workload);
  std::vector<KernelRow> rows;
  for (std::size_t kernel = 0; kernel < prices.size(); ++kernel) {
    if (!used[kernel]) continue;
    rows.push_back({.kernel = workload.kernels[kernel],
                    .gpu = gpu_of_kernel[kernel],
                    .price = prices[kernel]});
  }
  return rows;
}

}  // namespace trainyard
