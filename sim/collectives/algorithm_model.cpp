// Selects the algorithm of a call on a group and returns its phases (AlgorithmModel).
#include <fmt/format.h>

#include "sim/base/error.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/placement.hpp"
#include "sim/collectives/switches.hpp"

namespace trainyard {

namespace {

std::string_view wanted_name(const Call& call) {
  const auto* transfer = std::get_if<TransferCall>(&call);
  if (transfer == nullptr) return algorithm_of(call);
  return transfer->kind == MessageKind::Whole ? "direct" : "step";
}

// Names of the algorithms of this operation that accept the group.
std::string willing_names(CollectiveOp op, const PlacedGroup& placed) {
  std::vector<std::string_view> names;
  for (const CollectiveAlgorithm* algorithm : collective_algorithms())
    if (algorithm->op() == op && !algorithm->refusal(placed)) names.push_back(algorithm->name());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

const CollectiveAlgorithm& select_algorithm(const Call& call, const PlacedGroup& placed) {
  const std::string_view name = wanted_name(call);
  const CollectiveOp op = op_of(call);
  const CollectiveAlgorithm* algorithm = find_algorithm(op, name);
  if (algorithm == nullptr)
    throw RunError(fmt::format("{} of {}: there is no algorithm \"{}\" (choose one of: {})",
                               to_string(op), describe(placed.gpus), name,
                               willing_names(op, placed)));
  if (const auto reason = algorithm->refusal(placed))
    throw RunError(fmt::format("{} of {} cannot use \"{}\": {} (choose one of: {})", to_string(op),
                               describe(placed.gpus), name, *reason, willing_names(op, placed)));
  return *algorithm;
}

namespace {

// One flow over the links between a GPU and the memory of its CPU.
//
//    T = latency of the links + S/B      48 GB over PCIe 5 at 48 GB/s: 1 s and about a microsecond
std::vector<Phase> host_copy(const HostCopyCall& call, const Cluster& cluster, std::uint32_t gpu) {
  const Route route = call.direction == HostDirection::ToHost
                          ? cluster.router().route_to_host(gpu)
                          : cluster.router().route_from_host(gpu);
  if (route.empty())
    throw RunError(
        fmt::format("GPU {} has no way to the memory of a CPU (give its node a CPU on PCIe or "
                    "chip to chip, or leave out what is offloaded)",
                    gpu));
  LoadSum loads(cluster);
  loads.add(route, static_cast<double>(call.bytes));
  Phase phase;
  for (const RouteHop& hop : route) phase.latency += cluster.link(hop.link).latency * hop.fraction;
  loads.take_into(phase.flows);
  return {std::move(phase)};
}

}  // namespace

std::vector<Phase> AlgorithmModel::phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const {
  if (const auto* copy = std::get_if<HostCopyCall>(&call))
    return host_copy(*copy, cluster_, gpus.front());
  if (gpus.size() <= 1) return {};
  const PlacedGroup placed{.cluster = cluster_, .gpus = gpus, .matrix = matrix_of(call)};
  if (const auto* relay = std::get_if<RelayCall>(&call)) return relay_phases(*relay, placed);
  const CollectiveAlgorithm& algorithm = select_algorithm(call, placed);
  std::vector<Phase> phases = algorithm.phases(placed, Bytes{static_cast<double>(bytes_of(call))});
  const auto* transfer = std::get_if<TransferCall>(&call);
  // The message leaves while the step before it is still under way, so only its bytes take time.
  if (transfer != nullptr && transfer->kind == MessageKind::FollowingStep)
    phases.front().latency = {};
  return phases;
}

}  // namespace trainyard
