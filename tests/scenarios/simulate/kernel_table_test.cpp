// The table of kernels against the kernel times of a run.
#include <gtest/gtest.h>

#include <map>

#include "scenarios/simulate/kernel_pricing.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {
namespace {

Scenario shipped(const char* name, const std::vector<Override>& overrides) {
  return load_scenario(std::string(TRAINYARD_SOURCE_DIRECTORY "/scenarios/") + name, overrides);
}

// The times of the kernels of a run by their text. The list of the run contains kernels that nobody
// computes.
void expect_times_of_the_run(const Scenario& scenario) {
  const trainyard::Result run = simulate(scenario, {});
  std::multimap<std::string, double> of_run;
  for (std::size_t kernel = 0; kernel < run.workload->kernels.size(); ++kernel)
    of_run.emplace(to_text(run.workload->kernels[kernel]), run.kernel_costs[kernel].time.value());
  const std::vector<KernelRow> rows = kernel_table(scenario, *run.cluster);
  ASSERT_FALSE(rows.empty());
  for (const KernelRow& row : rows) {
    const KernelPrice& price = row.price;
    const double time = price.cost().time.value();
    EXPECT_DOUBLE_EQ(time, price.profile.time.value() * price.framework * price.four_bits *
                               price.last_replica * price.dispatch_slowdown);
    const auto [first, last] = of_run.equal_range(to_text(row.kernel));
    EXPECT_TRUE(std::any_of(first, last, [&](const auto& entry) { return entry.second == time; }))
        << to_text(row.kernel) << " takes " << time;
  }
}

std::size_t with_factor(const std::vector<KernelRow>& rows, double KernelPrice::*factor) {
  return static_cast<std::size_t>(
      std::ranges::count_if(rows, [&](const KernelRow& row) { return row.price.*factor != 1.0; }));
}

// Are the times in the table those of the run?
TEST(KernelTable, TimesAreThoseOfTheRun) {
  expect_times_of_the_run(shipped("first/two_gpus.json", {{"stragglers", "true"}}));
  expect_times_of_the_run(shipped("megatron/gpt_22b_8xa100_selective.json", {}));
  expect_times_of_the_run(shipped("unequal/llama3_8b_8xh100_8xa100.json", {}));
}

// Is each factor a separate column?
TEST(KernelTable, EachFactorStandsByItself) {
  const Scenario scenario = shipped("fsdp/llama3_8b_8xh100_fsdp.json", {{"stragglers", "true"}});
  const std::vector<KernelRow> rows = kernel_table(scenario, *shared_cluster(scenario.cluster));
  EXPECT_GT(with_factor(rows, &KernelPrice::framework), 0U);
  EXPECT_EQ(with_factor(rows, &KernelPrice::last_replica), rows.size());
  EXPECT_EQ(with_factor(rows, &KernelPrice::dispatch_slowdown), 0U);
  EXPECT_EQ(with_factor(rows, &KernelPrice::four_bits), 0U);
}

// Do dispatch and combine slow GEMMs? They keep 20 of the 132 SMs: GEMMs and attention run on the
// others.
TEST(KernelTable, ExchangesOfExpertsSlowProducts) {
  const Scenario scenario = shipped("moe/deepseek_v3_2048xh800.json", {});
  const std::vector<KernelRow> rows = kernel_table(scenario, *shared_cluster(scenario.cluster));
  const std::size_t slowed = with_factor(rows, &KernelPrice::dispatch_slowdown);
  EXPECT_GT(slowed, 0U);
  EXPECT_LT(slowed, rows.size());
}

}  // namespace
}  // namespace trainyard
