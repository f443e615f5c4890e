#include "scenarios/simulate/kernel_pricing.hpp"

#include "scenarios/simulate/approximations.hpp"
#include "scenarios/simulate/interference.hpp"
#include "scenarios/simulate/lowered.hpp"

namespace trainyard {

Stragglers stragglers_of(const Scenario& scenario) {
  return scenario.stragglers ? load_stragglers() : Stragglers{};
}

KernelSoftware kernel_software(const Scenario& scenario) {
  return {.framework = scenario.framework,
          .last_replica = last_replica(stragglers_of(scenario), scenario.plan),
          .four_bit_gemms = scenario.plan.recipe.four_bit_gemms,
          .fused_experts = scenario.plan.experts.gemms == ExpertGemms::Fused,
          .memory_efficient = scenario.plan.training.attention == AttentionKind::MemoryEfficient};
}

// Loads the GPU and applies the changes of the software to the framework's times: fused experts,
// attention by xFormers, 4-bit GEMMs.
KernelPricing::KernelPricing(const std::string& name, const KernelSoftware& software)
    : gpu(load_gpu(name)), last_replica(software.last_replica) {
  const GpuSheet& sheet = gpu.sheet;
  if (!software.framework.empty())
    times = load_framework_times(software.framework, sheet.generation);
  if (software.fused_experts) times.fuse_experts();
  if (software.memory_efficient) times.attend(load_memory_efficient_times(sheet.generation));
  if (software.four_bit_gemms) times.narrow(four_bit_share(sheet));
}

// The estimate covers the tables of measured shapes, some thousands per GPU.
std::size_t footprint(const KernelPricing& /*pricing*/) {
  constexpr std::size_t kMeasured = std::size_t{1} << 20U;
  return kMeasured;
}

const KernelPricing& KernelPricings::of(const std::string& gpu) {
  std::shared_ptr<const KernelPricing>& pricing = pricings_[gpu];
  if (!pricing)
    pricing =
        memo_.get<KernelPricing>([&] { return KernelPricing(gpu, software_); }, gpu, software_);
  return *pricing;
}

// The elementwise passes of ring attention grow with the queries of a block, but its kernel grows
// with queries times keys. A constant factor cannot express that, so the passes are priced as a
// memory-bound kernel and added.
double framework_factor(const KernelPricing& pricing, const Kernel& kernel, const Cost& profile) {
  const FrameworkTimes& times = pricing.times;
  const MemoryBound ring_passes{.bytes = times.ring_bytes(kernel)};
  if (ring_passes.bytes == 0) return times.as_wide(kernel);
  const Seconds passes = pricing.gpu.model->cost(ring_passes).time * times.memory_bound;
  return times.as_wide(kernel) + passes / profile.time;
}

Cost KernelPrice::cost() const {
  const double software = framework * four_bits * last_replica;
  return {.time = profile.time * software * dispatch_slowdown, .provenance = profile.provenance};
}

namespace {

KernelPrice price_of(const Kernel& kernel, const KernelPricing& pricing, bool reserves_sms) {
  const Cost profile = pricing.gpu.model->cost(kernel);
  // What the framework adds was measured with it.
  if (profile.in_step) return {.profile = profile, .last_replica = pricing.last_replica};
  const GpuSheet& sheet = pricing.gpu.sheet;
  const double compute_loss = sheet.communication_sms.compute_loss;
  return {
      .profile = profile,
      .framework = framework_factor(pricing, kernel, profile),
      .four_bits = pricing.times.narrower(kernel),
      .last_replica = pricing.last_replica,
      .dispatch_slowdown =
          reserves_sms ? pricing.times.dispatch_slowdown(kernel, sheet.sms, compute_loss) : 1.0};
}

}  // namespace

std::vector<KernelPrice> kernel_prices(const Workload& workload,
                                       const std::vector<std::string>& gpu_of_kernel,
                                       const std::vector<bool>& used, KernelPricings& pricings,
                                       bool reserves_sms) {
  std::vector<KernelPrice> prices(workload.kernels.size());
  for (std::size_t kernel = 0; kernel < prices.size(); ++kernel) {
    if (used[kernel])
      prices[kernel] =
          price_of(workload.kernels[kernel], pricings.of(gpu_of_kernel[kernel]), reserves_sms);
  }
  return prices;
}

std::vector<Cost> price_kernels(const Lowered& lowered, KernelPricings& pricings, bool interferes,
                                const WhatIf& what_if) {
  const Workload& workload = *lowered.workload;
  std::vector<Cost> costs;
  costs.reserve(workload.kernels.size());
  for (const KernelPrice& price : kernel_prices(workload, lowered.gpu_of_kernel, lowered.used,
                                                pricings, interferes && lowered.dispatches_tokens))
    costs.push_back(changed_cost(what_if, workload.kernels[costs.size()], price.cost()));
  return costs;
}

// Prices are computed as in a run (simulate.cpp), so the table shows the times that a run uses.
std::vector<KernelRow> kernel_table(const Scenario& scenario, const Cluster& cluster) {
  const auto [workload, gpu_of_kernel, clock_of_kernel] =
      specialise(scenario_workload(scenario, cluster), cluster);
  Memo memo;
  KernelPricings pricings(kernel_software(scenario), memo);
  const bool reserves_sms = scenario.interference && dispatches_tokens(workload);
  const std::vector<bool> used = kernels_used(workload);
  const std::vector<KernelPrice> prices =
      kernel_prices(workload, gpu_of_kernel, used, pricings, reserves_sms);
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
