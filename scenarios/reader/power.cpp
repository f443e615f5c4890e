#include "scenarios/reader/power.hpp"

#include "sim/base/field.hpp"

namespace trainyard {

namespace {

using Power = PowerSettings;
constexpr double kWattsMost = 1e6;
constexpr double kPueMost = 10.0;
constexpr double kPriceMost = 1e9;
constexpr double kYearsMost = 100.0;

const Field<Power> kPower[] = {
    {"gpu_cap_w", "power cap of each GPU in watts; its clock falls until it keeps it",
     OptionalNumber<Power>{&Power::gpu_cap_w, 1.0, kWattsMost}},
    {"node_cap_w", "power cap of each node in watts at the wall, shared equally by its GPUs",
     OptionalNumber<Power>{&Power::node_cap_w, 1.0, kWattsMost}},
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
    {"capital_per_gpu", "price to buy a GPU with its part of node and network",
     OptionalNumber<Power>{&Power::capital_per_gpu, 0.0, kPriceMost}},
    {"capital_years", "years over which the capital is spread evenly",
     OptionalNumber<Power>{&Power::capital_years, 0.01, kYearsMost}},
};

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
}

}  // namespace trainyard
