#include "scenarios/run/kernel_pricing.hpp"

namespace trainyard {

KernelPricing::KernelPricing(const std::string& name, const KernelSoftware& software)
    : gpu(load_gpu(name)) {
  const GpuSheet& sheet = gpu.sheet;
  if (!software.framework.empty())
    times = load_framework_times(software.framework, sheet.generation);
  if (software.fused_experts) times.fuse_experts();
  if (software.four_bit_products) times.narrow(four_bit_share(sheet));
}

std::vector<Cost> price_kernels(const Workload& workload,
                                const std::vector<std::string>& gpu_of_kernel,
                                KernelPricings& pricings, bool keeps_sms,
                                const Supposition& suppose) {
  const auto ranks = static_cast<std::int64_t>(workload.ranks.size());
  std::vector<Cost> costs;
  costs.reserve(workload.kernels.size());
  for (std::size_t index = 0; index < workload.kernels.size(); ++index) {
    const KernelPricing& pricing = pricings.of(gpu_of_kernel[index]);
    const Kernel& kernel = workload.kernels[index];
    Cost cost = pricing.gpu.model->cost(kernel);
    cost.time = cost.time * (pricing.times.of(kernel) * pricing.times.slowest_of(ranks));
    if (keeps_sms) {
      const GpuSheet& sheet = pricing.gpu.sheet;
      cost.time = cost.time * pricing.times.beside_exchanges(kernel, sheet.sms,
                                                             sheet.communication_sms.compute_loss);
    }
    costs.push_back(supposed_cost(suppose, kernel, cost));
  }
  return costs;
}

}  // namespace trainyard
