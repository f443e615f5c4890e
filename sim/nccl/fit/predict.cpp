#include "sim/nccl/fit/predict.hpp"

#include <nlohmann/json.hpp>

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard::nccl::fit {

Constants shipped_constants() {
  Constants constants;
  for (const auto& [generation, sm] : {std::pair{Generation::Ampere, 80U},
                                       {Generation::Hopper, 90U},
                                       {Generation::Blackwell, 100U}})
    constants.machines[generation] = *machine_model(sm);
  constants.protocols = protocol_model();
  constants.messages = message_model();
  JsonFile file = JsonFile::read(data_file("sim/nccl/data", "machine_network"));
  for (const auto& [name, fabric] : file.document().at("fabrics").items()) {
    if (name == "source") continue;
    constants.fabrics[name] = {.latency_us = fabric.at("latency_us").get<double>(),
                               .efficiency = fabric.at("efficiency").get<double>(),
                               .exchange_share = fabric.at("exchange_share").get<double>(),
                               .rendezvous_us = fabric.value("rendezvous_us", 0.0),
                               .inject_us = fabric.value("inject_us", 0.0)};
  }
  return constants;
}

bool can_predict(const Constants& constants, const Sample& sample) {
  return constants.machines.contains(sample.generation()) &&
         (sample.one_node() || constants.fabrics.contains(sample.fabric));
}

double predict_us(const Constants& constants, const Sample& sample) {
  return predicted(constants, sample).time_us(sample.bytes);
}

Prediction predicted(const Constants& constants, const Sample& sample) {
  Machine machine{.gpu = constants.machines.at(sample.generation()),
                  .protocols = constants.protocols,
                  .messages = constants.messages,
                  .network = {}};
  if (!sample.one_node()) {
    const Fabric& fabric = constants.fabrics.at(sample.fabric);
    machine.network = {.latency_us = fabric.latency_us,
                       .rate = sample.nic_rate * std::min(fabric.efficiency, 0.97),
                       .nics = sample.nics,
                       .exchange_share = fabric.exchange_share,
                       .rendezvous_us = fabric.rendezvous_us,
                       .rendezvous_bytes = sample.rendezvous_bytes.value_or(0.0),
                       .inject_us = fabric.inject_us,
                       .inject_bytes = sample.inject_bytes.value_or(0.0)};
  }
  const bool exchange = sample.op == CollectiveOp::AllToAll || sample.op == CollectiveOp::SendRecv;
  return exchange ? exchange_time(machine, *sample.communicator, sample.op, sample.bytes)
                  : machine_time(machine, *sample.communicator, sample.choice, sample.bytes);
}

std::optional<double> unfitted_us(const Sample& sample) {
  if (sample.op == CollectiveOp::AllToAll || sample.op == CollectiveOp::SendRecv) return {};
  return sample.choice.prediction.time_us(sample.bytes);
}

}  // namespace trainyard::nccl::fit
