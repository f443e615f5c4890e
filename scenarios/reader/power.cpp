#include "scenarios/reader/power.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/power/prices.hpp"
#include "sim/base/field.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;
using Power = PowerSettings;
constexpr double kWattsMost = 1e6;
constexpr double kPueMost = 10.0;
constexpr double kPriceMost = 1e9;
constexpr double kYearsMost = 100.0;

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const PublishedPrice& price : published_prices()) names.push_back(price.name);
  return names;
}

std::vector<std::string> preset_names_or_none() {
  std::vector<std::string> names = preset_names();
  names.insert(names.begin(), kNoPreset);
  return names;
}

// A name, or one for each kind of GPU.
void read_presets(JsonObject& object, std::string_view key, Power& power) {
  if (!object.has(key)) return;
  if (object.raw(key).is_array()) {
    power.price_presets =
        object.choices(key, preset_names(), "{} is no name of `trainyard list prices`", {});
    return;
  }
  const std::string name = object.choice(key, preset_names_or_none());
  power.price_presets.clear();
  if (name != kNoPreset) power.price_presets.push_back(name);
}

Json presets_json(const Power& power) {
  if (power.price_presets.empty()) return kNoPreset;
  return power.price_presets.size() == 1 ? Json(power.price_presets.front())
                                         : Json(power.price_presets);
}

Json presets_schema(const Power&) {
  const Json one{{"type", "string"}, {"enum", preset_names_or_none()}};
  const Json each{{"type", "array"}, {"items", {{"type", "string"}, {"enum", preset_names()}}}};
  return {{"anyOf", Json::array({one, each})}, {"default", kNoPreset}};
}

const Field<Power> kPower[] = {
    {"gpu_cap_w", "power cap of each GPU in watts; its clock falls until it keeps it",
     OptionalNumber<Power>{&Power::gpu_cap_w, 1.0, kWattsMost}},
    {"node_cap_w", "power cap of each node in watts at the wall, shared equally by its GPUs",
     OptionalNumber<Power>{&Power::node_cap_w, 1.0, kWattsMost}},
    {"stage_clocks", "clock of each pipeline stage in percent of the full one; empty: the full one",
     Wholes<Power>{&Power::stage_clocks, kLeastClock, kFullClock}},
    {"clock_tolerance",
     "lowers the clocks of the stages as far as the step grows by at most this share, so that "
     "bubbles save energy",
     OptionalNumber<Power>{&Power::clock_tolerance, 0.0, 1.0}},
    {"pue", "power of the building over that of the computers and switches in it",
     Real<Power>{&Power::pue, 1.0, kPueMost}},
    {"nodes_per_rack", "nodes in a rack, for the changes of a rack's power",
     Whole<Power>{&Power::nodes_per_rack}},
    {"price_per_kwh", "price of electricity, in any currency",
     OptionalNumber<Power>{&Power::price_per_kwh, 0.0, kPriceMost}},
    {"kg_co2_per_kwh", "emissions of electricity in kg of CO2",
     OptionalNumber<Power>{&Power::kg_co2_per_kwh, 0.0, kPriceMost}},
    {"price_per_gpu_hour", "price of a rented GPU for an hour; electricity is then part of it",
     OptionalNumber<Power>{&Power::price_per_gpu_hour, 0.0, kPriceMost}},
    {"price_preset",
     "published price of a GPU-hour: a name of `trainyard list prices`, or a list with one for "
     "each kind of GPU",
     Own<Power>{read_presets, presets_json, presets_schema}},
    {"capital_per_gpu", "price to buy a GPU with its part of node and network",
     OptionalNumber<Power>{&Power::capital_per_gpu, 0.0, kPriceMost}},
    {"capital_years", "years over which the capital is spread evenly",
     OptionalNumber<Power>{&Power::capital_years, 0.01, kYearsMost}},
};

void check_clocks(const Check& check, const Power& power) {
  if (power.clock_tolerance && !power.stage_clocks.empty())
    check.file.report("/power/clock_tolerance", "stands beside clocks of the stages",
                      "leave one out");
  if (!check.parallelism) return;
  const Parallelism& p = check.sizes();
  if (!power.stage_clocks.empty() && std::ssize(power.stage_clocks) != p.pipeline)
    check.file.report(
        "/power/stage_clocks",
        fmt::format("has {} entries for {} stages", power.stage_clocks.size(), p.pipeline),
        "give one clock for each pipeline stage");
}

// Names the presets of a GPU: "aws_p5_on_demand, lambda_h100_on_demand".
std::string presets_of(const std::string& gpu) {
  std::vector<std::string> names;
  for (const PublishedPrice& price : published_prices())
    if (price.gpu == gpu) names.push_back(price.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void check_price(const Check& check, const Power& power) {
  const std::vector<PublishedPrice> presets = price_presets(power);
  if (presets.empty()) return;
  const auto report = [&check](const std::string& problem, const std::string& hint) {
    check.file.report("/power/price_preset", problem, hint);
  };
  if (power.price_per_gpu_hour) report("stands beside a price of a GPU-hour", "leave one out");
  std::map<std::string, std::string> by_gpu;
  for (const PublishedPrice& price : presets) {
    const auto [known, is_new] = by_gpu.emplace(price.gpu, price.name);
    if (!is_new)
      report(fmt::format("\"{}\" and \"{}\" are both prices of {}", known->second, price.name,
                         price.gpu),
             "leave one out");
  }
  if (!check.cluster) return;
  std::set<std::string> profiles;
  for (const PlacedGpu& gpu : gpus_of(check.scenario.cluster)) profiles.insert(gpu.profile);
  const std::string list = profiles.size() == 1 ? "" : "list one for each kind of GPU; ";
  for (const std::string& gpu : profiles) {
    if (by_gpu.contains(gpu)) continue;
    const std::string names = presets_of(gpu);
    const std::string what = presets.size() == 1 ? "is a price" : "are prices";
    report(fmt::format("\"{}\" {} of {}, and the cluster has {}",
                       fmt::join(power.price_presets, "\", \""), what,
                       fmt::join(std::views::keys(by_gpu), ", "), gpu),
           names.empty() ? "give price_per_gpu_hour" : list + "presets of that GPU: " + names);
  }
}

}  // namespace

PowerSettings read_power(JsonObject& root) {
  JsonObject object = root.object("power");
  return read_fields<Power>(object, kPower, {});
}

nlohmann::ordered_json power_json(const PowerSettings& power) {
  return write_fields<Power>(kPower, power);
}

nlohmann::ordered_json power_schema() { return schema_of_fields<Power>(kPower, {}); }

void check_power(const Check& check) {
  if (!check.scenario.power || !check.file.is_sound("/power")) return;
  const Power& power = *check.scenario.power;
  if (power.gpu_cap_w && power.node_cap_w)
    check.file.report("/power/node_cap_w", "stands beside a cap of each GPU", "leave one out");
  if (power.capital_per_gpu.has_value() != power.capital_years.has_value())
    check.file.report(power.capital_per_gpu ? "/power/capital_years" : "/power/capital_per_gpu",
                      "is missing beside the other figure of capital",
                      "give both, such as 30000 and 5, or neither");
  const bool rented = power.price_per_gpu_hour || !power.price_presets.empty();
  if (power.capital_per_gpu && rented)
    check.file.report("/power/capital_per_gpu", "stands beside the price of a rented GPU",
                      "leave one out: a GPU is bought or rented");
  check_clocks(check, power);
  check_price(check, power);
}

}  // namespace trainyard
