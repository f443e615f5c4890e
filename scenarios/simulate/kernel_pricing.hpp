// How long every kernel of a workload takes, on the GPU and with the framework it runs on.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/gpu.hpp"
#include "models/framework.hpp"
#include "models/stragglers.hpp"
#include "scenarios/reader/scenario.hpp"
#include "scenarios/simulate/stages.hpp"
#include "scenarios/simulate/what_if.hpp"
#include "sim/base/memo.hpp"
#include "sim/cluster/cluster.hpp"

namespace trainyard {

// The software of a run: whose kernels, whether its 8-bit products multiply 4-bit numbers, and
// whether its experts' products have everything around them inside.
struct KernelSoftware {
  std::string framework = {};  // empty: kernels as in the GPU's profile
  double last_replica = 1.0;   // the time of the last of the replicas over that of one
  bool four_bit_gemms = false;
  bool fused_experts = false;
  bool memory_efficient = false;  // attention, by kernels of xFormers
  bool operator==(const KernelSoftware&) const = default;
};

[[nodiscard]] KernelSoftware kernel_software(const Scenario& scenario);

// The software that the scenario assumes; none where it leaves it out. Throws InputError.
[[nodiscard]] Stragglers stragglers_of(const Scenario& scenario);

// Kernels of a kind of GPU as software runs them. 4-bit products take the time of the same in 8
// bits by the data sheet's rates: 10 over 5 PFLOP/s (GB200) halve it. Nothing in 4 bits is
// measured. Throws InputError where the GPU has no such rate.
struct KernelPricing {
  explicit KernelPricing(const std::string& name, const KernelSoftware& software);
  PricedGpu gpu;
  FrameworkTimes times = {};
  double last_replica = 1.0;
};

// A framework's kernel, with what a block of a context ring has beside it, over the profile's.
[[nodiscard]] double framework_factor(const KernelPricing& pricing, const Kernel& kernel,
                                      const Cost& profile);

[[nodiscard]] std::size_t footprint(const KernelPricing& pricing);

// The prices of each kind of GPU, found once, when they are first asked for.
class KernelPricings {
 public:
  // REQUIRES: the memo outlives it.
  KernelPricings(KernelSoftware software, Memo& memo)
      : software_(std::move(software)), memo_(memo) {}

  [[nodiscard]] const KernelPricing& of(const std::string& gpu);

 private:
  KernelSoftware software_;
  Memo& memo_;
  std::map<std::string, std::shared_ptr<const KernelPricing>> pricings_;
};

// How the time of a kernel in a run comes about: the profile's time, times the factors of the
// software. A factor of 1 changes nothing.
struct KernelPrice {
  Cost profile;                  // alone on the GPU, as its profile says
  double framework = 1.0;        // the framework's kernel over the profile's
  double four_bits = 1.0;        // a 4-bit product over the 8-bit one in the profile
  double last_replica = 1.0;     // the last of the replicas over one alone
  double beside_dispatch = 1.0;  // on the SMs that exchanges of experts leave
  // The profile's cost with all factors applied.
  [[nodiscard]] Cost cost() const;
};

// `gpu_of_kernel`: on which GPU each of them runs, there on the slowest rank. `keeps_sms`: whether
// exchanges of experts keep the SMs that the framework gives them.
[[nodiscard]] std::vector<KernelPrice> kernel_prices(const Workload& workload,
                                                     const std::vector<std::string>& gpu_of_kernel,
                                                     KernelPricings& pricings, bool keeps_sms);

// The same as costs, as a what-if has them.
[[nodiscard]] std::vector<Cost> price_kernels(const Lowered& lowered, KernelPricings& pricings,
                                              bool interferes, const WhatIf& what_if);

// Every kernel of a scenario with the time that a run gives it, and the factors that make it.
//
//   for (const KernelRow& row : kernel_table(scenario, *shared_cluster(scenario.cluster)))
//     fmt::print("{} {}\n", to_text(row.kernel), to_text(row.price.cost().time));
struct KernelRow {
  Kernel kernel;
  std::string gpu;  // the profile of the GPU that it runs on
  KernelPrice price;
};

// The kernels that some rank computes, in the workload's order; where GPUs differ, once for each
// kind. Throws InputError.
[[nodiscard]] std::vector<KernelRow> kernel_table(const Scenario& scenario, const Cluster& cluster);

}  // namespace trainyard
