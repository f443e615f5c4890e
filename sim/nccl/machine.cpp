#include "sim/nccl/machine.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard::nccl {

namespace {

constexpr const char* kFolder = "sim/nccl/data";

constexpr std::array<Parameter<MachineModel>, 5> kMachine{{
    {"launch_us", &MachineModel::launch_us},
    {"ll_step_us", &MachineModel::ll_step_us},
    {"simple_step_us", &MachineModel::simple_step_us},
    {"channel_rate", &MachineModel::channel_rate},
    {"copy_rate", &MachineModel::copy_rate},
}};

constexpr std::array<Parameter<ProtocolModel>, 12> kProtocolModel{{
    {"ll128_step_us", &ProtocolModel::ll128_step_us},
    {"ll_share", &ProtocolModel::ll_share},
    {"ll128_share", &ProtocolModel::ll128_share},
    {"ring_share", &ProtocolModel::ring_share},
    {"own_share", &ProtocolModel::own_share},
    {"nvls_us", &ProtocolModel::nvls_us},
    {"nvls_round_steps", &ProtocolModel::nvls_round_steps},
    {"nvls_share", &ProtocolModel::nvls_share},
    {"exchange_ll_us", &ProtocolModel::exchange_ll_us},
    {"exchange_steps", &ProtocolModel::exchange_steps},
    {"exchange_ll_share", &ProtocolModel::exchange_ll_share},
    {"exchange_share", &ProtocolModel::exchange_share},
}};

constexpr std::array<Parameter<MessageModel>, 10> kMessages{{
    {"ll_us", &MessageModel::ll_us},
    {"ll128_us", &MessageModel::ll128_us},
    {"simple_us", &MessageModel::simple_us},
    {"exchange_us", &MessageModel::exchange_us},
    {"ll_rate", &MessageModel::ll_rate},
    {"turn_us", &MessageModel::turn_us},
    {"late_share", &MessageModel::late_share},
    {"tree_fill", &MessageModel::tree_fill},
    {"nvls_tree_share", &MessageModel::nvls_tree_share},
    {"host_bridge_share", &MessageModel::host_bridge_share},
}};

template <class Model>
Model read_parameters(JsonObject object, std::span<const Parameter<Model>> parameters) {
  Model model;
  for (const auto& parameter : parameters)
    model.*parameter.value = object.number(parameter.key, {.least = 0.0});
  return model;
}

// The file of a generation's constants; null for Volta, which was not measured.
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

// Skips the keys that document a fit and that the model does not use.
void ignore_notes(JsonObject& root) {
  for (const char* note : {"description", "source", "command", "rows", "errors"}) root.ignore(note);
}

MachineModel read_machine(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  ignore_notes(root);
  MachineModel model = read_parameters(root.object("fitted"), machine_parameters());
  model.link_rate = root.number("link_rate", {.least = 1.0});
  for (const auto& capability : root.raw("measured_on"))
    model.measured_on.push_back(capability.get<std::uint32_t>());
  file.finish();
  return model;
}

ProtocolModel read_protocols(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  ignore_notes(root);
  const ProtocolModel model = read_parameters(root.object("fitted"), protocol_parameters());
  file.finish();
  return model;
}

MessageModel read_messages(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  ignore_notes(root);
  MessageModel model = read_parameters(root.object("fitted"), message_parameters());
  // Networks without their own share use that of the reference fabric.
  model.exchange_share = root.raw("fabrics").at("infiniband").at("exchange_share").get<double>();
  file.finish();
  return model;
}

}  // namespace

std::span<const Parameter<MachineModel>> machine_parameters() { return kMachine; }
std::span<const Parameter<ProtocolModel>> protocol_parameters() { return kProtocolModel; }
std::span<const Parameter<MessageModel>> message_parameters() { return kMessages; }

std::optional<MachineModel> machine_model(std::uint32_t compute_capability) {
  const char* name = file_of(compute_capability);
  if (name == nullptr) return {};
  return read_once<MachineModel>(data_file(kFolder, name), read_machine);
}

ProtocolModel protocol_model() {
  return read_once<ProtocolModel>(data_file(kFolder, "machine_protocols"), read_protocols);
}

MessageModel message_model() {
  return read_once<MessageModel>(data_file(kFolder, "machine_network"), read_messages);
}

namespace {

// The last member of the group that is on another node than the first one, and a few between them.
std::vector<std::uint32_t> far_members(const PlacedGroup& placed) {
  const std::uint32_t first = placed.cluster.node_of(placed.gpus.front());
  const auto is_far = [&](std::uint32_t gpu) { return placed.cluster.node_of(gpu) != first; };
  std::vector<std::uint32_t> members;
  const auto last = std::find_if(placed.gpus.rbegin(), placed.gpus.rend(), is_far);
  if (last != placed.gpus.rend()) members.push_back(*last);
  constexpr std::size_t kParts = 8;
  for (std::size_t part = 1; part < kParts; ++part)
    if (const std::uint32_t gpu = placed.gpus[placed.gpus.size() * part / kParts]; is_far(gpu))
      members.push_back(gpu);
  return members;
}

bool is_inside(LinkKind kind) {
  return kind == LinkKind::NvLink || kind == LinkKind::Pcie || kind == LinkKind::ChipToChip ||
         kind == LinkKind::Socket;
}

// Adds up the latencies of the wires from NIC to NIC. Links within a node are left out, because the
// fitted times of steps and messages cover them.
double wire_latency_us(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  double latency_us = 0.0;
  for (const RouteHop& hop :
       cluster.router().route_rail_aligned(from, to, RouteDetail::ParallelLinks)) {
    const Link& link = cluster.link(hop.link);
    if (!is_inside(link.kind))
      latency_us += 1e6 * hop.fraction * hop.parallel_count * link.latency.value();
  }
  return latency_us;
}

// Each of m members of a node sends a block to each of the n - m members elsewhere, through the
// NICs of the m.
void add_uneven_members(const PlacedGroup& placed, Network& network) {
  struct OnNode {
    std::uint32_t members = 0;
    std::set<DeviceId> nics = {};
  };
  if (placed.cluster.nic_of_gpu().empty()) return;
  std::map<std::uint32_t, OnNode> nodes;
  for (const std::uint32_t gpu : placed.gpus) {
    OnNode& node = nodes[placed.cluster.node_of(gpu)];
    ++node.members;
    node.nics.insert(placed.cluster.nic_of_gpu().at(gpu));
  }
  const auto [least, most] =
      std::ranges::minmax_element(nodes, {}, [](const auto& node) { return node.second.members; });
  if (least->second.members == most->second.members) return;
  network.least_members = least->second.members;
  network.most_members = most->second.members;
  for (const auto& [number, node] : nodes) {
    const double elsewhere = static_cast<double>(placed.gpus.size()) - node.members;
    network.blocks_of_nic = std::max(
        network.blocks_of_nic, node.members * elsewhere / static_cast<double>(node.nics.size()));
  }
}

}  // namespace

Network network_of(const PlacedGroup& placed, const Communicator& communicator) {
  Network network;
  if (communicator.nodes == 1) return network;
  network.latency_us = 0.0;
  for (const std::uint32_t far : far_members(placed))
    network.latency_us =
        std::max(network.latency_us, wire_latency_us(placed.cluster, placed.gpus.front(), far));
  network.rate = usable_nic_rate(communicator.node);
  network.nics = static_cast<std::uint32_t>(communicator.node.nics.size());
  add_uneven_members(placed, network);
  return network;
}

}  // namespace trainyard::nccl
