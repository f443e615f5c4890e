// What every kernel of a workload takes, on the GPU and with the framework it runs on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/gpu.hpp"
#include "models/framework_times.hpp"
#include "scenarios/run/supposition.hpp"

namespace trainyard {

// Kernels of a kind of GPU as a framework's software runs them; without a name as in its profile.
struct KernelPricing {
  explicit KernelPricing(const std::string& name, const std::string& framework);
  PricedGpu gpu;
  FrameworkTimes times = {};
};

// Of each kind of GPU once, when it is first asked for.
class KernelPricings {
 public:
  explicit KernelPricings(std::string framework) : framework_(std::move(framework)) {}

  [[nodiscard]] const KernelPricing& of(const std::string& gpu) {
    return pricings_.try_emplace(gpu, gpu, framework_).first->second;
  }

 private:
  std::string framework_;
  std::map<std::string, KernelPricing> pricings_;
};

// `gpu_of_kernel`: on which GPU each of them runs, there on the slowest rank. `keeps_sms`: whether
// exchanges of experts keep the SMs that the framework gives them.
[[nodiscard]] std::vector<Cost> price_kernels(const Workload& workload,
                                              const std::vector<std::string>& gpu_of_kernel,
                                              KernelPricings& pricings, bool keeps_sms,
                                              const Supposition& suppose);

}  // namespace trainyard
