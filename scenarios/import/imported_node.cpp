#include "scenarios/import/imported_node.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"
#include "topologies/draft.hpp"
#include "topologies/node.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse_node(const std::string& file, std::string problem, std::string hint) {
  throw InputError(Problem{file, "", std::move(problem), std::move(hint)});
}

Seconds latency_of(LinkKind kind, const NodeSpec& like) {
  return kind == LinkKind::NvLink ? like.nvlink_latency : like.pcie_latency;
}

// Returns the device above each part: its PCIe switch or CPU.
std::vector<std::optional<std::size_t>> parents_of(const ImportedNode& node) {
  std::vector<std::optional<std::size_t>> parents(node.parts.size());
  const auto note = [&](std::size_t part, std::size_t other) {
    const DeviceKind kind = node.parts[other].kind;
    if (!parents[part] && (kind == DeviceKind::PcieSwitch || kind == DeviceKind::Cpu))
      parents[part] = other;
  };
  for (const ImportedNode::Wire& wire : node.wires) {
    if (wire.kind != LinkKind::Pcie && wire.kind != LinkKind::ChipToChip) continue;
    note(wire.from, wire.to);
    note(wire.to, wire.from);
  }
  return parents;
}

std::vector<std::size_t> devices_of(const ImportedNode& node, DeviceKind kind) {
  std::vector<std::size_t> found;
  for (std::size_t part = 0; part < node.parts.size(); ++part)
    if (node.parts[part].kind == kind) found.push_back(part);
  return found;
}

// Returns the NIC of each GPU. A GPU prefers the NICs on its switch, in turn. GPUs without such a
// NIC are spread evenly over all NICs in their order.
std::vector<std::size_t> nic_numbers(const ImportedNode& node) {
  const std::vector<std::size_t> gpus = devices_of(node, DeviceKind::Gpu);
  const std::vector<std::size_t> nics = devices_of(node, DeviceKind::Nic);
  const std::vector<std::optional<std::size_t>> parents = parents_of(node);
  std::vector<std::size_t> numbers;
  std::vector<std::size_t> taken(nics.size(), 0);
  for (std::size_t gpu = 0; gpu < gpus.size() && !nics.empty(); ++gpu) {
    std::optional<std::size_t> best;
    for (std::size_t nic = 0; nic < nics.size(); ++nic) {
      if (parents[nics[nic]] != parents[gpus[gpu]]) continue;
      if (!best || taken[nic] < taken[*best]) best = nic;
    }
    // 8 GPUs without a NIC on their switch, and 4 NICs: 0, 0, 1, 1, 2, 2, 3, 3.
    const std::size_t number = best.value_or(gpu * nics.size() / gpus.size());
    ++taken[number];
    numbers.push_back(number);
  }
  return numbers;
}

// Adds one node's devices and wires. Indices count the devices of each kind, and the rates have no
// separate nominal value.
void add_copy(const ImportedNode& node, std::uint32_t number, const NodeSpec& like, Draft& draft) {
  std::vector<DeviceId> ids;
  std::array<std::int32_t, kDeviceKinds> next{};
  for (const ImportedNode::Part& part : node.parts) {
    ids.push_back(draft.blueprint.add({.kind = part.kind,
                                       .node = static_cast<std::int32_t>(number),
                                       .index = next.at(static_cast<std::size_t>(part.kind))++},
                                      fmt::format("node {} {}", number, part.name)));
    if (part.kind == DeviceKind::Gpu) draft.gpus.push_back(ids.back());
    if (part.kind == DeviceKind::Nic) draft.nics.push_back(ids.back());
  }
  for (const ImportedNode::Wire& wire : node.wires)
    draft.cable(ids[wire.from], ids[wire.to],
                {.kind = wire.kind,
                 .capacity = wire.capacity,
                 .nominal = wire.capacity,
                 .latency = latency_of(wire.kind, like),
                 .cables = wire.cables});
}

// The fabric is drawn for NICs of one rate. This function gives each cable the rate of its NIC's
// port.
void set_port_rates(const ImportedNode& node, Wiring& wiring) {
  wiring.rewire([&](const Link& link) {
    Wire wire = wire_of(link);
    if (wire.kind != LinkKind::NicPort) return wire;
    const Device& from = wiring.device(link.from);
    const Device& nic = from.kind == DeviceKind::Nic ? from : wiring.device(link.to);
    wire.capacity = wire.nominal =
        BytesPerSecond{node.ports.at(static_cast<std::size_t>(nic.index))};
    return wire;
  });
}

ClusterSpec spec_of(const ImportedNode& node, const ImportChoice& choice, const NodeSpec& like) {
  ClusterSpec spec{.node = like, .nodes = choice.nodes};
  spec.node.gpus = static_cast<std::uint32_t>(devices_of(node, DeviceKind::Gpu).size());
  spec.node.nics = static_cast<std::uint32_t>(node.ports.size());
  return spec;
}

// Returns the kind of every GPU, where the description names kinds and the caller chose none for
// all.
std::vector<GpuKind> kinds_of(const ImportedNode& node, const ImportChoice& choice) {
  std::vector<GpuKind> kinds;
  if (!choice.gpu.empty()) return kinds;
  std::map<std::string, Bytes> memory;  // by profile
  for (const std::size_t part : devices_of(node, DeviceKind::Gpu)) {
    const std::string& own = node.parts[part].gpu;
    const std::string& profile = own.empty() ? node.gpu : own;
    if (!memory.contains(profile)) memory[profile] = node_with_gpu(profile, node.file).gpu_memory;
    kinds.push_back({.profile = profile, .memory = memory[profile]});
  }
  const std::vector<GpuKind> one = kinds;
  for (std::uint32_t number = 1; number < choice.nodes; ++number)
    kinds.insert(kinds.end(), one.begin(), one.end());
  return kinds;
}

// Returns the known names that begin with the word, or with which the word begins: "a100" is near
// "a100_40gb" and "a100_80gb".
std::vector<std::string> names_near(const std::string& word,
                                    const std::vector<std::string>& known) {
  const std::string wanted = normalised_word(word);
  std::vector<std::string> near;
  for (const std::string& name : known)
    if (name.starts_with(wanted) || wanted.starts_with(name))
      near.push_back(fmt::format("\"{}\"", name));
  return near;
}

[[noreturn]] void refuse_gpu(const std::string& gpu, const std::vector<std::string>& known,
                             const std::string& file) {
  const std::vector<std::string> near = names_near(gpu, known);
  refuse_node(file, fmt::format("no node type in topologies/data has the GPU \"{}\"", gpu),
              near.empty() ? suggestion(gpu, known)
                           : fmt::format("did you mean {}?", fmt::join(near, " or ")));
}

}  // namespace

// The first node type with this GPU. It supplies what a description of a node does not contain:
// latencies, memory and rates.
NodeSpec node_with_gpu(const std::string& gpu, const std::string& file) {
  if (gpu.empty())
    refuse_node(file, "does not tell which GPU it has", "say it: --gpu h100 (trainyard list gpus)");
  std::vector<std::string> known;
  for (const std::string& name : node_names()) {
    NodeSpec node = load_node(name);
    if (node.gpu == normalised_word(gpu)) return node;
    known.push_back(node.gpu);
  }
  refuse_gpu(gpu, known, file);
}

std::vector<std::string> assumptions_of(const ImportedNode& node, const ImportChoice& choice) {
  const NodeSpec like = node_with_gpu(choice.gpu.empty() ? node.gpu : choice.gpu, node.file);
  std::vector<std::string> all = node.assumed;
  all.push_back(fmt::format(
      "memory of the GPUs, latencies of links and latencies of collectives are those of {}",
      like.name));
  if (node.ports.empty()) return all;
  all.emplace_back(
      "a GPU uses a NIC on its own PCIe switch or CPU; the others are spread evenly over all NICs");
  if (choice.nodes > 1)
    all.push_back(
        fmt::format("{} such servers are joined by the fabric {} with its default parameters",
                    choice.nodes, choice.fabric));
  return all;
}

NodeSpec node_of_option(const std::string& name) {
  try {
    return load_node(name);
  } catch (const InputError& error) {
    std::vector<Problem> problems = error.problems();
    for (Problem& problem : problems)
      if (problem.file.empty()) problem.file = "--node";
    throw InputError(std::move(problems));
  }
}

BytesPerSecond parse_nic_rate(std::string_view text, const std::string& option) {
  std::optional<BytesPerSecond> rate = parse_rate(text);
  for (const auto& [unit, word] :
       {std::pair{"Gbps", " Gb/s"}, std::pair{"Gb", " Gb/s"}, std::pair{"G", " Gb/s"},
        std::pair{"Tbps", " Tb/s"}, std::pair{"Tb", " Tb/s"}, std::pair{"T", " Tb/s"},
        std::pair{"Mbps", " Mb/s"}}) {
    if (!rate && text.ends_with(unit))
      rate = parse_rate(std::string(text.substr(0, text.size() - std::string_view(unit).size())) +
                        word);
  }
  if (!rate || rate->value() <= 0.0)
    refuse_node(option, fmt::format("\"{}\" is not the rate of a NIC", text),
                "write it in bits as NICs are sold (400G, 400Gbps, \"400 Gb/s\") or in bytes "
                "(\"50 GB/s\")");
  return *rate;
}

std::string nic_rate_text(BytesPerSecond rate) {
  return fmt::format("{:.6g} Gb/s", rate.value() * 8e-9);
}

BytesPerSecond usable_nic_rate(BytesPerSecond line_rate, const NodeSpec& like) {
  if (like.nic_nominal.value() <= 0.0) return line_rate;
  return line_rate * (like.nic / like.nic_nominal);
}

// Copies the node, draws the fabric, and assigns each GPU the NIC with the same number on its own
// node.
Cluster imported_cluster(const ImportedNode& node, const ImportChoice& choice) {
  const NodeSpec like = node_with_gpu(choice.gpu.empty() ? node.gpu : choice.gpu, node.file);
  const std::string& gpu = like.gpu;
  ClusterSpec spec = spec_of(node, choice, like);
  if (spec.node.gpus == 0) refuse_node(node.file, "has no GPU", "dump it on a machine with GPUs");
  if (choice.nodes > 1 && node.ports.empty())
    refuse_node(node.file, fmt::format("has no NIC to join {} nodes", choice.nodes),
                "use --nodes 1, or a description with NICs");
  Draft draft;
  for (std::uint32_t number = 0; number < choice.nodes; ++number)
    add_copy(node, number, like, draft);
  std::vector<DeviceId> nic_of_gpu;
  if (!node.ports.empty()) {
    const FabricEntry* fabric = find_fabric(choice.fabric);
    if (fabric == nullptr)
      refuse_node("--fabric", fmt::format("there is no fabric \"{}\"", choice.fabric),
                  "trainyard list fabrics");
    spec.fabric.kind = fabric->defaults;
    draw_fabric(spec, draft);
    const std::vector<std::size_t> numbers = nic_numbers(node);
    for (std::size_t i = 0; i < draft.gpus.size(); ++i)
      // `i` counts the GPUs of all nodes, and `numbers` has those of one node.
      nic_of_gpu.push_back(
          draft.nics[i / numbers.size() * node.ports.size() + numbers[i % numbers.size()]]);
  }
  Wiring wiring = std::move(draft.blueprint).wiring();
  set_port_rates(node, wiring);
  ClusterFacts facts{.name = fmt::format("{} x imported {}", choice.nodes, gpu),
                     .node = like.name,
                     .gpu = gpu,
                     .nodes = choice.nodes,
                     .gpus_per_node = spec.node.gpus,
                     .gpu_memory = like.gpu_memory,
                     .mixed_gpus = kinds_of(node, choice),
                     .latency = like.latency};
  clear_if_uniform(facts);
  return {std::move(facts), std::move(wiring), std::move(draft.gpus), std::move(nic_of_gpu)};
}

}  // namespace trainyard
