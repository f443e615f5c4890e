#include "models/collectives/nccl/transport.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/collectives/placement.hpp"
#include "sim/base/error.hpp"

namespace trainyard::nccl {

namespace {

bool is_tuned(CollectiveOp op) {
  return op != CollectiveOp::AllToAll && op != CollectiveOp::SendRecv;
}

}  // namespace

NcclTransport::NcclTransport(const Cluster& cluster, Options options)
    : cluster_(cluster),
      options_(std::move(options)),
      host_(host_facts(cluster.facts().gpu, cluster.facts().node)),
      others_(cluster) {
  if (!host_ && options_.sm) host_ = HostFacts{};
  if (!host_) return;
  host_->sm = options_.sm.value_or(host_->sm);
  host_->cpu = options_.cpu.value_or(host_->cpu);
}

const Communicator& NcclTransport::communicator(std::span<const std::uint32_t> gpus) const {
  if (!host_)
    throw RunError(
        fmt::format("nccl on {}: \"{}\" is no GPU of NVIDIA that NCCL's data know (choose "
                    "another algorithm, such as ring)",
                    describe(gpus), cluster_.facts().gpu));
  const GroupPlace place{.cluster = cluster_, .gpus = gpus};
  const Placement placement = placement_of(place);
  const auto& roles =
      *std::min_element(placement.nodes.begin(), placement.nodes.end(),
                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
  std::vector<std::uint32_t> local;
  for (const std::uint32_t role : roles) local.push_back(cluster_.local_index(gpus[role]));
  Shape shape{gpus.size(), placement.nodes.size(), std::move(local)};
  if (const auto found = known_.find(shape); found != known_.end()) return found->second;
  Communicator made =
      make_communicator({.node = node_view(place, *host_),
                         .ranks = static_cast<std::uint32_t>(gpus.size()),
                         .nodes = static_cast<std::uint32_t>(placement.nodes.size())},
                        options_);
  return known_.emplace(std::move(shape), std::move(made)).first->second;
}

std::optional<Choice> NcclTransport::choice(const Call& call,
                                            std::span<const std::uint32_t> gpus) const {
  if (call.algorithm != kNcclName || gpus.size() <= 1 || !is_tuned(call.op)) return {};
  return choose(communicator(gpus), {.op = call.op,
                                     .bytes = static_cast<double>(call.bytes),
                                     .eight_bit_float = call.dtype == DataType::Fp8});
}

std::vector<Phase> NcclTransport::phases(const Call& call,
                                         std::span<const std::uint32_t> gpus) const {
  if (call.algorithm != kNcclName) return others_.phases(call, gpus);
  if (gpus.size() <= 1) return {};
  if (!is_tuned(call.op)) {
    Call direct = call;
    direct.algorithm = "direct";
    return others_.phases(direct, gpus);
  }
  return lower({.cluster = cluster_, .gpus = gpus}, *choice(call, gpus),
               static_cast<double>(call.bytes));
}

std::string NcclTransport::label(const Call& call, std::span<const std::uint32_t> gpus) const {
  if (call.algorithm != kNcclName || gpus.size() <= 1) return call.algorithm;
  if (const auto chosen = choice(call, gpus)) return "nccl: " + to_text(*chosen);
  const Communicator& comm = communicator(gpus);
  return fmt::format("nccl: {} channels, {} a peer", comm.p2p_channels, comm.p2p_channels_per_peer);
}

}  // namespace trainyard::nccl
