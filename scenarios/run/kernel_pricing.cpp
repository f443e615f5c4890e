#include "scenarios/run/kernel_pricing.hpp"

namespace trainyard {

Stragglers stragglers_of(const Scenario& scenario) {
  return scenario.stragglers ? load_stragglers() : Stragglers{};
}

double last_replica(const Stragglers& stragglers, const TrainingPlan& plan) {
  const ParameterServers& servers = plan.servers;
  const bool ahead = servers.servers > 0 && (servers.asynchronous || servers.staleness > 0);
  return ahead ? 1.0 : stragglers.last_of(plan.parallelism.data);
}

KernelSoftware kernel_software(const Scenario& scenario) {
  return {.framework = scenario.framework,
          .last_replica = last_replica(stragglers_of(scenario), scenario.plan),
          .four_bit_products = scenario.plan.recipe.four_bit_products,
          .fused_experts = scenario.plan.experts.products == ExpertProducts::Fused};
}

KernelPricing::KernelPricing(const std::string& name, const KernelSoftware& software)
    : gpu(load_gpu(name)), last_replica(software.last_replica) {
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
  std::vector<Cost> costs;
  costs.reserve(workload.kernels.size());
  for (std::size_t index = 0; index < workload.kernels.size(); ++index) {
    const KernelPricing& pricing = pricings.of(gpu_of_kernel[index]);
    const Kernel& kernel = workload.kernels[index];
    Cost cost = pricing.gpu.model->cost(kernel);
    cost.time = cost.time * (pricing.times.of(kernel) * pricing.last_replica);
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
