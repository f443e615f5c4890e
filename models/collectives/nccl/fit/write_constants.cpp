#include "models/collectives/nccl/fit/write_constants.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/files.hpp"

namespace trainyard::nccl::fit {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCommand = "fit_nccl measured/collectives models/collectives/nccl/data {}";

double four_digits(double value) {
  if (value == 0.0) return 0.0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 3.0);
  return std::stod(fmt::format("{:.6g}", std::round(value / unit) * unit));
}

Json error_json(const ErrorSum& sum) {
  return {{"rows", sum.rows},
          {"mean_absolute", four_digits(sum.mean_absolute())},
          {"bias", four_digits(sum.bias())}};
}

Json evidence(const Constants& constants, const Selection& rows) {
  const ErrorTable table = errors_of(constants, rows);
  return {{"all_sizes", error_json(table.all())},
          {"from_1_MiB", error_json(table.from_one_mebibyte())}};
}

template <class Model>
Json parameters_json(const Model& model, std::span<const Parameter<Model>> parameters) {
  Json json = Json::object();
  for (const auto& parameter : parameters)
    json[std::string(parameter.key)] = model.*parameter.value;
  return json;
}

std::string sources_of(const Selection& rows) {
  std::set<std::string> names;
  for (const Sample* row : rows) names.insert(row->source);
  return fmt::format("{}", fmt::join(names, ", "));
}

void write(const Json& json, const Destination& destination, const char* name) {
  write_file(std::filesystem::path(destination.folder) / name, json.dump(2) + "\n");
}

void write_machine(const Constants& constants, Generation generation, const char* name,
                   const Selection& rows, const Destination& destination) {
  Selection own;
  for (const Sample* row : rows)
    if (row->one_node() && row->generation() == generation) own.push_back(row);
  const MachineModel& machine = constants.machines.at(generation);
  Json releases = Json::array();
  for (const MachineRelease& release : machine.releases)
    releases.push_back({{"from", release.from},
                        {"exchange_ll_by_channel", release.exchange_ll_by_channel},
                        {"ll128_extra_us", release.ll128_extra_us},
                        {"source", "where the measured times jump, by release"}});
  const Json json = {
      {"description",
       fmt::format("Machine model of NCCL on one node, {}: microseconds, GB/s of one GPU{}", name,
                   generation == Generation::Ampere
                       ? "; there is no NVLS, and its constants are guesses that nothing uses"
                       : "")},
      {"source", fmt::format("least squares on log time over {}", sources_of(own))},
      {"command", fmt::format(kCommand, destination.date)},
      {"link_rate", machine.link_rate},
      {"fitted", parameters_json(machine, machine_parameters())},
      {"releases", releases},
      {"errors", evidence(constants, own)}};
  write(json, destination, fmt::format("machine_{}.json", name).c_str());
}

void write_network(const Constants& constants, const Selection& rows,
                   const Destination& destination) {
  Selection own;
  for (const Sample* row : rows)
    if (!row->one_node()) own.push_back(row);
  Json fabrics = {{"source",
                   "fitted with the rest; infiniband's latency is that of its adapters "
                   "over one switch, 1.0 to 1.3 us, and its share of the rate 48.5 of 50 GB/s; an "
                   "exchange_share of 0.9 is a guess where no all_to_all was measured"}};
  for (const auto& [name, fabric] : constants.fabrics)
    fabrics[name] = {{"latency_us", fabric.latency_us},
                     {"efficiency", fabric.efficiency},
                     {"exchange_share", fabric.exchange_share}};
  const Json json = {
      {"description",
       "Machine model of NCCL between nodes: what a message takes beside the latency of the "
       "fabric (microseconds), and the fabrics as the measured machines had them"},
      {"source", fmt::format("least squares on log time over {}", sources_of(own))},
      {"command", fmt::format(kCommand, destination.date)},
      {"fitted", parameters_json(constants.messages, message_parameters())},
      {"fabrics", fabrics},
      {"errors", evidence(constants, own)}};
  write(json, destination, "machine_network.json");
}

}  // namespace

Constants rounded(Constants constants) {
  for (auto& [generation, machine] : constants.machines) {
    for (const auto& parameter : machine_parameters())
      machine.*parameter.value = four_digits(machine.*parameter.value);
    for (MachineRelease& release : machine.releases)
      release.ll128_extra_us = four_digits(release.ll128_extra_us);
  }
  for (const auto& parameter : message_parameters())
    constants.messages.*parameter.value = four_digits(constants.messages.*parameter.value);
  for (auto& [name, fabric] : constants.fabrics)
    fabric = {.latency_us = four_digits(fabric.latency_us),
              .efficiency = four_digits(fabric.efficiency),
              .exchange_share = four_digits(fabric.exchange_share)};
  return constants;
}

void write_constants(const Constants& constants, const Selection& rows,
                     const Destination& destination) {
  write_machine(constants, Generation::Ampere, "ampere", rows, destination);
  write_machine(constants, Generation::Hopper, "hopper", rows, destination);
  write_machine(constants, Generation::Blackwell, "blackwell", rows, destination);
  write_network(constants, rows, destination);
}

}  // namespace trainyard::nccl::fit
