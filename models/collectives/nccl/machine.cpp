#include "models/collectives/nccl/machine.hpp"

#include <array>

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard::nccl {

namespace {

constexpr const char* kFolder = "models/collectives/nccl/data";

constexpr std::array<Parameter<MachineModel>, 17> kMachine{{
    {"launch_us", &MachineModel::launch_us},
    {"ll_step_us", &MachineModel::ll_step_us},
    {"ll128_step_us", &MachineModel::ll128_step_us},
    {"simple_step_us", &MachineModel::simple_step_us},
    {"ll_channel_rate", &MachineModel::ll_channel_rate},
    {"ll_rate", &MachineModel::ll_rate},
    {"ll128_rate", &MachineModel::ll128_rate},
    {"ring_efficiency", &MachineModel::ring_efficiency},
    {"own_rate", &MachineModel::own_rate},
    {"nvls_us", &MachineModel::nvls_us},
    {"nvls_round_us", &MachineModel::nvls_round_us},
    {"nvls_rate", &MachineModel::nvls_rate},
    {"exchange_ll_us", &MachineModel::exchange_ll_us},
    {"exchange_us", &MachineModel::exchange_us},
    {"exchange_ll_rate", &MachineModel::exchange_ll_rate},
    {"exchange_rate", &MachineModel::exchange_rate},
    {"exchange_own_rate", &MachineModel::exchange_own_rate},
}};

constexpr std::array<Parameter<MessageModel>, 7> kMessages{{
    {"ll_us", &MessageModel::ll_us},
    {"ll128_us", &MessageModel::ll128_us},
    {"simple_us", &MessageModel::simple_us},
    {"exchange_us", &MessageModel::exchange_us},
    {"pipeline", &MessageModel::pipeline},
    {"nvls_tree_share", &MessageModel::nvls_tree_share},
    {"nvls_pipeline", &MessageModel::nvls_pipeline},
}};

template <class Model>
Model read_parameters(JsonObject object, std::span<const Parameter<Model>> parameters) {
  Model model;
  for (const auto& parameter : parameters)
    model.*parameter.value = object.number(parameter.key, {.least = 0.0});
  return model;
}

const char* file_of(std::uint32_t compute_capability) {
  switch (generation_of(compute_capability)) {
    case Generation::Volta:
      return nullptr;
    case Generation::Ampere:
      return "machine_ampere";
    case Generation::Hopper:
      return "machine_hopper";
    case Generation::Blackwell:
      return "machine_blackwell";
  }
  return nullptr;
}

}  // namespace

std::span<const Parameter<MachineModel>> machine_parameters() { return kMachine; }
std::span<const Parameter<MessageModel>> message_parameters() { return kMessages; }

std::optional<MachineModel> machine_model(std::uint32_t compute_capability) {
  const char* name = file_of(compute_capability);
  if (name == nullptr) return {};
  JsonFile file = JsonFile::read(data_file(kFolder, name));
  JsonObject root = file.root();
  for (const char* note : {"description", "source", "command", "rows", "errors"}) root.ignore(note);
  MachineModel model = read_parameters(root.object("fitted"), machine_parameters());
  model.link_rate = root.number("link_rate", {.least = 1.0});
  for (JsonObject& release : root.objects("releases")) {
    release.ignore("source");
    model.releases.push_back(
        {.from = release.text("from"),
         .exchange_ll_by_channel = release.boolean("exchange_ll_by_channel", true),
         .ll128_extra_us = release.number("ll128_extra_us", {.fallback = 0.0, .least = 0.0})});
  }
  file.finish();
  return model;
}

MessageModel message_model() {
  JsonFile file = JsonFile::read(data_file(kFolder, "machine_network"));
  JsonObject root = file.root();
  for (const char* note : {"description", "source", "command", "rows", "errors", "fabrics"})
    root.ignore(note);
  const MessageModel model = read_parameters(root.object("fitted"), message_parameters());
  file.finish();
  return model;
}

}  // namespace trainyard::nccl
