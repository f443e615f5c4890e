// What every kernel of a workload takes, on the GPU and with the framework it runs on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/gpu.hpp"
#include "models/framework_times.hpp"
#include "scenarios/run/supposition.hpp"
#include "scenarios/scenario.hpp"

namespace trainyard {

// The software of a run: whose kernels, whether its 8-bit products multiply 4-bit numbers, and
// whether its experts' products have everything around them inside.
struct KernelSoftware {
  std::string framework = {};  // empty: kernels as in the GPU's profile
  bool four_bit_products = false;
  bool fused_experts = false;
};

[[nodiscard]] inline KernelSoftware kernel_software(const Scenario& scenario) {
  return {.framework = scenario.framework,
          .four_bit_products = scenario.plan.recipe.four_bit_products,
          .fused_experts = scenario.plan.experts.products == ExpertProducts::Fused};
}

// Kernels of a kind of GPU as software runs them. 4-bit products take the time of the same in 8
// bits by the data sheet's rates: 10 over 5 PFLOP/s (GB200) halve it. Nothing in 4 bits is
// measured. Throws InputError where the GPU has no such rate.
struct KernelPricing {
  explicit KernelPricing(const std::string& name, const KernelSoftware& software);
  PricedGpu gpu;
  FrameworkTimes times = {};
};

// Of each kind of GPU once, when it is first asked for.
class KernelPricings {
 public:
  explicit KernelPricings(KernelSoftware software) : software_(std::move(software)) {}

  [[nodiscard]] const KernelPricing& of(const std::string& gpu) {
    return pricings_.try_emplace(gpu, gpu, software_).first->second;
  }

 private:
  KernelSoftware software_;
  std::map<std::string, KernelPricing> pricings_;
};

// `gpu_of_kernel`: on which GPU each of them runs, there on the slowest rank. `keeps_sms`: whether
// exchanges of experts keep the SMs that the framework gives them.
[[nodiscard]] std::vector<Cost> price_kernels(const Workload& workload,
                                              const std::vector<std::string>& gpu_of_kernel,
                                              KernelPricings& pricings, bool keeps_sms,
                                              const Supposition& suppose);

}  // namespace trainyard
