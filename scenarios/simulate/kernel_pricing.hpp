// The time of every kernel of a workload, on its GPU and with the framework that issues it.
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
#include "scenarios/simulate/lowered.hpp"
#include "scenarios/simulate/what_if.hpp"
#include "sim/base/memo.hpp"
#include "sim/cluster/cluster.hpp"

namespace trainyard {

// The software properties that affect kernel times: the framework, whether 8-bit GEMMs multiply
// 4-bit numbers, and whether the GEMMs of experts are fused with the operations around them.
struct KernelSoftware {
  std::string framework = {};  // empty: kernels as in the GPU's profile
  double last_replica = 1.0;   // time of the slowest replica over that of one
  bool four_bit_gemms = false;
  bool fused_experts = false;
  bool memory_efficient = false;  // attention by the kernels of xFormers
  bool operator==(const KernelSoftware&) const = default;
};

[[nodiscard]] KernelSoftware kernel_software(const Scenario& scenario);

// Returns the straggler model that the scenario selects; none where it disables it. Throws
// InputError.
[[nodiscard]] Stragglers stragglers_of(const Scenario& scenario);

// The kernels of one kind of GPU as the software runs them. The time of a 4-bit GEMM is that of the
// 8-bit GEMM, scaled by the rates of the data sheet: 10 over 5 PFLOP/s (GB200) halve it. No 4-bit
// GEMM is measured. Throws InputError where the GPU has no such rate.
struct KernelPricing {
  explicit KernelPricing(const std::string& name, const KernelSoftware& software);
  PricedGpu gpu;
  FrameworkTimes times = {};
  double last_replica = 1.0;
};

// Returns the time of the framework's kernel over that of the profile. It includes the elementwise
// kernels that a block of ring attention adds.
[[nodiscard]] double framework_factor(const KernelPricing& pricing, const Kernel& kernel,
                                      const Cost& profile);

[[nodiscard]] std::size_t footprint(const KernelPricing& pricing);

// The prices of each kind of GPU, loaded once, on first use.
class KernelPricings {
 public:
  // REQUIRES: the memo outlives this object.
  KernelPricings(KernelSoftware software, Memo& memo)
      : software_(std::move(software)), memo_(memo) {}

  [[nodiscard]] const KernelPricing& of(const std::string& gpu);

 private:
  KernelSoftware software_;
  Memo& memo_;
  std::map<std::string, std::shared_ptr<const KernelPricing>> pricings_;
};

// The time of a kernel in a run: the profile's time, times the factors of the software. A factor of
// 1 changes nothing.
struct KernelPrice {
  Cost profile;                    // alone on the GPU, from the profile
  double framework = 1.0;          // the framework's kernel over the profile's
  double four_bits = 1.0;          // a 4-bit GEMM over the 8-bit GEMM in the profile
  double last_replica = 1.0;       // the slowest replica over a single one
  double dispatch_slowdown = 1.0;  // slowdown by the SMs that dispatch and combine reserve
  // Returns the profile's cost with all factors applied.
  [[nodiscard]] Cost cost() const;
};

// `gpu_of_kernel` names the GPU of each kernel; the price is that on the slowest rank. A kernel
// that is not `used` has no price: in a mixed cluster its GPU may not even have its precision.
// `reserves_sms`: whether dispatch and combine reserve the SMs that the framework gives them.
[[nodiscard]] std::vector<KernelPrice> kernel_prices(const Workload& workload,
                                                     const std::vector<std::string>& gpu_of_kernel,
                                                     const std::vector<bool>& used,
                                                     KernelPricings& pricings, bool reserves_sms);

// Returns the same as costs, with the changes of the what-if.
[[nodiscard]] std::vector<Cost> price_kernels(const Lowered& lowered, KernelPricings& pricings,
                                              bool interferes, const WhatIf& what_if);

// A kernel of a scenario with its time in a run, and the factors of that time.
//
//    for (const KernelRow& row : kernel_table(scenario, *shared_cluster(scenario.cluster)))
//      fmt::print("{} {}\n", to_text(row.kernel), to_text(row.price.cost().time));
struct KernelRow {
  Kernel kernel;
  std::string gpu;  // profile of the GPU that it runs on
  KernelPrice price;
};

// Returns the kernels that some rank computes, in the workload's order; on GPUs of several kinds,
// once for each kind. Throws InputError.
[[nodiscard]] std::vector<KernelRow> kernel_table(const Scenario& scenario, const Cluster& cluster);

}  // namespace trainyard
