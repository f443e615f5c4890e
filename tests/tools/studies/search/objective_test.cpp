// Does --objective order the layouts by the cost or the energy that a run of each reports?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scenarios/simulate/simulate.hpp"
#include "sim/base/error.hpp"
#include "sim/report/energy_figures.hpp"
#include "tests/agreement.hpp"
#include "tests/tools/studies/search/small_search.hpp"
#include "tools/studies/search/report.hpp"
#include "tools/studies/search/search.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;
using test::of_four_layers;

// Eight layouts of 16 GPUs with a block of power, none of which is an interleaving of another. With
// 85 % of the memory left free, two tensor ranks must recompute, and eight need not: the former
// layouts take less time, because the GPUs of the latter wait more, and the latter less energy.
SearchSpace with_power(const std::vector<Override>& power) {
  SearchSpace space = of_four_layers();
  space.over.clear();
  for (const char* one : {"parallelism.tensor=2,8", "parallelism.pipeline=1",
                          "parallelism.context=1", "training.micro_batch_size=1,2",
                          "training.recompute=none,full", "parallelism.zero_stage=1"})
    space.over.push_back(axis_of({one}));
  space.scenario.changes.insert(space.scenario.changes.end(), power.begin(), power.end());
  return space;
}

SearchResult searched_by(SearchObjective objective, const std::vector<Override>& power) {
  Journal journal("");
  return search({.space = with_power(power),
                 .journal = journal,
                 .top = 100,
                 .objective = objective,
                 .processes = 2,
                 .headroom = 0.85});
}

// Returns the energy and cost of a step that a run of the layout by itself reports.
EnergyCost run_alone(const Layout& layout) {
  return energy_figures(simulate(load_variant(layout.variant), {}).view()).cost(1.0);
}

// The figure that orders the layouts.
using Figure = double (*)(const EnergyCost&);

// Is every layout that fits in the list, and does the list ascend in the figures of the runs by
// themselves? The first one then is the least of all candidates.
void expect_order(const SearchResult& result, const std::vector<Override>& power, Figure figure) {
  const SearchCounts& counts = result.counts;
  EXPECT_EQ(counts.simulated + counts.too_large + counts.refused,
            enumerate(with_power(power)).legal.size());
  ASSERT_EQ(result.best.size(), counts.simulated - counts.do_not_fit);
  ASSERT_GE(result.best.size(), 4U);
  double before = 0.0;
  for (const FoundLayout& found : result.best) {
    const double value = figure(run_alone(found.layout));
    EXPECT_GT(value, before) << layout_name(found.layout);
    before = value;
  }
}

std::string first(SearchObjective objective, const std::vector<Override>& power) {
  return layout_name(searched_by(objective, power).best.front().layout);
}

constexpr const char* kQuickest = "TP 2, PP 1, DP 8, mbs 1, recompute full, ZeRO 1";
constexpr const char* kThriftiest = "TP 8, PP 1, DP 2, mbs 2, recompute none, ZeRO 1";
const std::vector<Override> kElectricity = {{"power.price_per_kwh", "0.1"}};

// GPUs that are bought for 30 000 and used for five years, and electricity of a price.
std::vector<Override> bought(const std::string& price_per_kwh) {
  return {{"power.price_per_kwh", price_per_kwh},
          {"power.capital_per_gpu", "30000"},
          {"power.capital_years", "5"}};
}

// Is the best layout by energy the one whose run takes the least energy, though not the quickest?
TEST(SearchObjective, TheBestByEnergyTakesTheLeastEnergyOfAllLayouts) {
  const SearchResult result = searched_by(SearchObjective::Energy, kElectricity);
  expect_order(result, kElectricity, [](const EnergyCost& cost) { return cost.kwh; });
  EXPECT_EQ(layout_name(result.best.front().layout), kThriftiest);
  EXPECT_EQ(first(SearchObjective::Time, kElectricity), kQuickest);
}

// Is the best layout by cost the one whose run costs the least: capital for the time of 16 GPUs,
// and the price of the energy?
TEST(SearchObjective, TheBestByCostCostsTheLeastOfAllLayouts) {
  const SearchResult result = searched_by(SearchObjective::Cost, bought("0.1"));
  expect_order(result, bought("0.1"), [](const EnergyCost& cost) { return cost.money().value(); });
  for (const FoundLayout& found : result.best) {
    const double hours = found.figures.step_time_s / 3600.0;
    const double cost =
        16.0 * hours * 30'000.0 / (5.0 * 365.25 * 24.0) + 0.1 * run_alone(found.layout).kwh;
    EXPECT_NEAR(found.figures.cost.value(), cost, kAgreement * cost);
  }
}

// Are layouts of different batches ordered by the time, and the energy, of a token? Larger batches
// reduce their gradients less often.
TEST(SearchObjective, LayoutsOfDifferentBatchesCompareByTheToken) {
  for (const SearchObjective objective : {SearchObjective::Time, SearchObjective::Energy}) {
    SearchSpace space = with_power(kElectricity);
    space.over = {
        axis_of({"training.global_batch_size=16,64"}), axis_of({"parallelism.tensor=2"}),
        axis_of({"parallelism.pipeline=1"}),           axis_of({"parallelism.context=1"}),
        axis_of({"training.micro_batch_size=1"}),      axis_of({"training.recompute=full"}),
        axis_of({"parallelism.zero_stage=1"})};
    Journal journal("");
    const SearchResult result = search(
        {.space = space, .journal = journal, .top = 5, .objective = objective, .processes = 2});
    ASSERT_FALSE(result.best.empty());
    const FoundLayout& best = result.best.front();
    EXPECT_EQ(best.layout.plan.training.global_batch_size, 64);
    for (const FoundLayout& other : result.fitting)
      EXPECT_GE(*best.figures.tokens_per_s_per_gpu, *other.figures.tokens_per_s_per_gpu);
  }
}

// Do the prices decide which layout is the best by cost? Where electricity is cheap beside GPUs, or
// GPUs are rented, time costs; where it is dear, or has the only price, energy does.
TEST(SearchObjective, PricesDecideWhichLayoutIsTheBest) {
  EXPECT_EQ(first(SearchObjective::Cost, bought("0.1")), kQuickest);
  EXPECT_EQ(first(SearchObjective::Cost, bought("2")), kThriftiest);
  EXPECT_EQ(first(SearchObjective::Cost, kElectricity), kThriftiest);
  EXPECT_EQ(first(SearchObjective::Cost,
                  {{"power.price_per_kwh", "2"}, {"power.price_per_gpu_hour", "2"}}),
            kQuickest);
}

// Is a layout simulated although it is too slow to be the quickest? Bounds are of time, and a
// slower layout may take less energy.
TEST(SearchObjective, NoLayoutIsLeftOutForItsTime) {
  SearchSpace space = of_four_layers();
  space.scenario.changes.push_back({"power.price_per_kwh", "0.1"});
  const auto too_slow = [&](SearchObjective objective) {
    Journal journal("");
    return search({.space = space,
                   .journal = journal,
                   .top = 1,
                   .objective = objective,
                   .processes = 2})
        .counts.too_slow;
  };
  EXPECT_GT(too_slow(SearchObjective::Time), 0U);
  EXPECT_EQ(too_slow(SearchObjective::Energy), 0U);
}

// Do the text, the page and the JSON say by what the layouts are ordered, with its figures?
TEST(SearchObjective, TheReportNamesTheObjectiveAndItsFigures) {
  const SearchResult cost = searched_by(SearchObjective::Cost, kElectricity);
  EXPECT_THAT(search_text(cost, {}), testing::StartsWith("The layouts of least cost that fit"));
  EXPECT_THAT(search_text(cost, {}), testing::HasSubstr("cost/step"));
  EXPECT_THAT(search_page(cost, {}, "a.json"),
              testing::HasSubstr("The layout of least cost that fits: " +
                                 layout_name(cost.best.front().layout)));
  const Json json = search_json(cost, {});
  EXPECT_EQ(json["objective"], "cost");
  const Json& first = json["best"][0];
  EXPECT_EQ(first["cost"].get<double>(), cost.best.front().figures.cost.value());
  const SearchResult energy = searched_by(SearchObjective::Energy, {{"power.pue", "1.2"}});
  EXPECT_THAT(search_text(energy, {}), testing::StartsWith("The layouts of least energy that fit"));
  EXPECT_THAT(search_text(energy, {}), testing::HasSubstr("kWh/step"));
  EXPECT_THAT(search_text(energy, {}), testing::Not(testing::HasSubstr("cost/step")));
  EXPECT_FALSE(search_json(energy, {})["best"][0].contains("cost"));
}

std::string refusal(SearchObjective objective, const std::vector<Override>& power) {
  try {
    (void)searched_by(objective, power);
    return "";
  } catch (const InputError& error) {
    Problem problem = error.problems().front();
    problem.file.clear();
    return to_text(problem);
  }
}

// Is an objective refused that the scenario gives no figures for?
TEST(SearchObjective, AnObjectiveWithoutFiguresIsRefused) {
  EXPECT_EQ(refusal(SearchObjective::Energy, {}),
            "/power: is missing, and the objective energy needs it (add the block, or --set "
            "power.pue=1.2)");
  EXPECT_EQ(refusal(SearchObjective::Cost, {}),
            "/power: is missing, and the objective cost needs it (add the block, or --set "
            "power.price_per_gpu_hour=2)");
  EXPECT_EQ(refusal(SearchObjective::Cost, {{"power.pue", "1.2"}}),
            "/power: has no price, and the objective cost needs one (add price_per_gpu_hour, "
            "price_preset, price_per_kwh or capital_per_gpu)");
}

// Do tokens count those of all workers of local steps, as in the cost of a run?
TEST(SearchObjective, TokensAreThoseOfAllWorkers) {
  SearchSpace space = with_power(kElectricity);
  const std::vector<Layout> one = enumerate(space).legal;
  space.scenario.changes.push_back({"local_steps", R"({"every": 10, "workers": 2})"});
  space.scenario.changes.push_back({"parallelism.data", "2"});
  const std::vector<Layout> two = enumerate(space).legal;
  EXPECT_DOUBLE_EQ(tokens_of(two.front()), 2.0 * tokens_of(one.front()));
}

// Does a price take the place of the scenario's own one, be it that of a rented GPU, by a preset,
// or of one that is bought?
TEST(SearchObjective, APriceReplacesTheScenariosOwn) {
  for (const std::vector<Override>& own : std::vector<std::vector<Override>>{
           {{"power.price_per_gpu_hour", "9"}},
           {{"power.price_preset", "aws_p5_on_demand"}},
           {{"power.capital_per_gpu", "30000"}, {"power.capital_years", "5"}}}) {
    Variant variant = with_power(own).scenario;
    set_price(2.0, variant);
    const PowerSettings power = load_variant(variant).power.value();
    EXPECT_EQ(power.price_per_gpu_hour, 2.0) << own.front().path;
    EXPECT_FALSE(power.capital_per_gpu || power.capital_years) << own.front().path;
    EXPECT_TRUE(power.price_presets.empty()) << own.front().path;
  }
}

// Are prices that differ between layouts refused? They belong to the cluster, which all layouts of
// a search share.
TEST(SearchObjective, APriceIsNoPartOfALayout) {
  SearchSpace space = with_power(kElectricity);
  space.over.push_back(axis_of({"power.price_per_gpu_hour=1,2"}));
  try {
    (void)enumerate(space);
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_EQ(to_text(error.problems().front()),
              "--over: power.price_per_gpu_hour is no part of a layout (search again with --set "
              "for each value, or use sweep)");
  }
}

}  // namespace
}  // namespace trainyard
