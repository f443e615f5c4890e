#include "scenarios/simulate/kernel_table.hpp"

#include "scenarios/simulate/approximations.hpp"
#include "scenarios/simulate/device_kinds.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/lowered.hpp"

namespace trainyard {

std::vector<KernelRow> kernel_table(const Scenario& scenario, const Cluster& cluster) {
  const auto [workload, gpu_of_kernel] = specialise(scenario_workload(scenario, cluster), cluster);
  Memo memo;
  KernelPricings pricings(kernel_software(scenario), memo);
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
