#include "sim/nccl/fit/write_constants.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/files.hpp"

namespace trainyard::nccl::fit {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCommand = "fit_nccl measured/collectives sim/nccl/data {}";

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

template <class Model>
void round_all(Model& model, std::span<const Parameter<Model>> parameters) {
  for (const auto& parameter : parameters)
    model.*parameter.value = four_digits(model.*parameter.value);
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
  const Json json = {
      {"description",
       fmt::format("Machine model of NCCL on one node, {}: microseconds, GB/s of one GPU", name)},
      {"source", fmt::format("least squares on log time over {}", sources_of(own))},
      {"command", fmt::format(kCommand, destination.date)},
      {"measured_on", machine.measured_on},
      {"link_rate", machine.link_rate},
      {"fitted", parameters_json(machine, machine_parameters())},
      {"errors", evidence(constants, own)}};
  write(json, destination, fmt::format("machine_{}.json", name).c_str());
}

void write_protocols(const Constants& constants, const Selection& rows,
                     const Destination& destination) {
  Selection own;
  for (const Sample* row : rows)
    if (row->one_node()) own.push_back(row);
  const Json json = {{"description",
                      "Machine model of NCCL on one node, what holds for every GPU: microseconds, "
                      "steps, shares of "
                      "a GPU's NVLink"},
                     {"source", fmt::format("least squares on log time over {}", sources_of(own))},
                     {"command", fmt::format(kCommand, destination.date)},
                     {"fitted", parameters_json(constants.protocols, protocol_parameters())},
                     {"errors", evidence(constants, own)}};
  write(json, destination, "machine_protocols.json");
}

Json fabric_json(const Fabric& fabric) {
  Json json = {{"latency_us", fabric.latency_us},
               {"efficiency", fabric.efficiency},
               {"exchange_share", fabric.exchange_share}};
  if (fabric.rendezvous_us > 0.0) json["rendezvous_us"] = fabric.rendezvous_us;
  if (fabric.inject_us > 0.0) json["inject_us"] = fabric.inject_us;
  return json;
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
  for (const auto& [name, fabric] : constants.fabrics) fabrics[name] = fabric_json(fabric);
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
  for (auto& [generation, machine] : constants.machines) round_all(machine, machine_parameters());
  round_all(constants.protocols, protocol_parameters());
  round_all(constants.messages, message_parameters());
  for (auto& [name, fabric] : constants.fabrics)
    for (double* value : {&fabric.latency_us, &fabric.efficiency, &fabric.exchange_share,
                          &fabric.rendezvous_us, &fabric.inject_us})
      *value = four_digits(*value);
  return constants;
}

void write_constants(const Constants& constants, const Selection& rows,
                     const Destination& destination) {
  write_machine(constants, Generation::Ampere, "ampere", rows, destination);
  write_machine(constants, Generation::Hopper, "hopper", rows, destination);
  write_machine(constants, Generation::Blackwell, "blackwell", rows, destination);
  write_protocols(constants, rows, destination);
  write_network(constants, rows, destination);
}

}  // namespace trainyard::nccl::fit
