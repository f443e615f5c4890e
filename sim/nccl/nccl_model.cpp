#include "sim/nccl/nccl_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard::nccl {

namespace {

bool is_tuned(CollectiveOp op) {
  return op != CollectiveOp::AllToAll && op != CollectiveOp::SendRecv;
}

// The time of the phases on an idle fabric.
Seconds time_alone(const Cluster& cluster, const std::vector<Phase>& phases) {
  Seconds total;
  for (const Phase& phase : phases)
    total = total + phase.latency + links_need(cluster, phase.flows);
  return total;
}

// Scales the graphs to the real rate of NVLink. Needed if NCCL's tuning model also computes the
// time, because NCCL assumes a fixed rate per link.
void count_as_carried(Communicator& made) {
  const double share = made.node.nvlink_share;
  made.graphs.ring.intra *= share;
  made.graphs.tree.intra *= share;
  if (made.graphs.nvls) made.graphs.nvls->intra *= share;
}

}  // namespace

NcclModel::NcclModel(const Cluster& cluster, Options options)
    : cluster_(cluster),
      options_(std::move(options)),
      host_(host_facts(cluster.facts().gpu, cluster.facts().node)),
      others_(cluster) {
  options_.collnet = options_.collnet || cluster.facts().fabric_reduces;
  // A GPU that NCCL's data do not contain can still be simulated if the options give its compute
  // capability.
  if (!host_ && options_.sm) host_ = HostFacts{};
  if (!host_) return;
  if (options_.sm) {
    host_->sm = *options_.sm;
    host_->nvlink = nvlink_facts(*options_.sm);
  }
  host_->cpu = options_.cpu.value_or(host_->cpu);
  const auto measured = options_.machine ? machine_model(host_->sm) : std::nullopt;
  if (measured)
    machine_ = Machine{.gpu = *measured,
                       .protocols = protocol_model(),
                       .messages = message_model(),
                       .network = {}};
}

PricedBy NcclModel::priced_by() const {
  if (!machine_) return PricedBy::NoGpu;
  const std::vector<std::uint32_t>& measured = machine_->gpu.measured_on;
  const bool here = std::find(measured.begin(), measured.end(), host_->sm) != measured.end();
  return here ? PricedBy::ThisGpu : PricedBy::ItsGeneration;
}

const Communicator& NcclModel::communicator(std::span<const std::uint32_t> gpus) const {
  if (last_.communicator == nullptr || !std::ranges::equal(last_.gpus, gpus))
    last_ = {.gpus = {gpus.begin(), gpus.end()}, .communicator = &communicator_of_group(gpus)};
  return *last_.communicator;
}

const Communicator& NcclModel::communicator_of_group(std::span<const std::uint32_t> gpus) const {
  if (!host_)
    throw RunError(
        fmt::format("nccl on {}: \"{}\" is no GPU of NVIDIA that NCCL's data know (choose "
                    "another algorithm, such as ring)",
                    describe(gpus), cluster_.facts().gpu));
  const PlacedGroup placed{.cluster = cluster_, .gpus = gpus};
  const Placement placement = placement_of(placed);
  const std::vector<NodeKind> kinds = node_kinds(placed, placement);
  // Groups with the same local GPUs on each kind of node share a communicator, because it depends
  // on nothing else.
  std::vector<std::uint32_t> local;
  for (const NodeKind& kind : kinds) {
    local.push_back(static_cast<std::uint32_t>(kind.nics));
    for (const std::uint32_t group_rank : kind.group_ranks)
      local.push_back(cluster_.local_index(gpus[group_rank]));
  }
  Shape shape{gpus.size(), placement.nodes.size(), std::move(local)};
  if (const auto found = known_.find(shape); found != known_.end()) return *found->second;
  CommunicatorShape wanted{.ranks = static_cast<std::uint32_t>(gpus.size()),
                           .nodes = static_cast<std::uint32_t>(placement.nodes.size())};
  for (const NodeKind& kind : kinds) wanted.others.push_back(node_view(placed, kind, *host_));
  wanted.node = std::move(wanted.others.front());
  wanted.others.erase(wanted.others.begin());
  // CollNet requires the same number of members on every node.
  const Communicator& communicator =
      communicator_of(std::move(wanted), options_.collnet && placement.even());
  known_.emplace(std::move(shape), &communicator);
  return communicator;
}

const Communicator& NcclModel::communicator_of(CommunicatorShape shape, bool collnet) const {
  for (const Made& made : made_)
    if (made.collnet == collnet && made.shape == shape) return made.communicator;
  Options options = options_;
  options.collnet = collnet;
  Communicator communicator = make_communicator(shape, options);
  if (!machine_) count_as_carried(communicator);
  made_.push_back({std::move(shape), collnet, std::move(communicator)});
  return made_.back().communicator;
}

bool NcclModel::chooses(const Call& call, std::span<const std::uint32_t> gpus) const {
  return algorithm_of(call) == kNcclName && gpus.size() > 1;
}

std::optional<Choice> NcclModel::choice(const Call& call,
                                        std::span<const std::uint32_t> gpus) const {
  if (!chooses(call, gpus) || !is_tuned(op_of(call))) return {};
  const Communicator& comm = communicator(gpus);
  const bool eight_bit_float = dtype_of(call) == DataType::Fp8;
  const Machine* pace = machine(gpus);
  // The latency of the network is part of the key: groups that share a communicator can differ in
  // it.
  const Question question{&comm, op_of(call), bytes_of(call), eight_bit_float,
                          pace ? pace->network.latency_us : 0.0};
  const auto known = chosen_.find(question);
  if (known != chosen_.end()) return known->second;
  const auto bytes = static_cast<double>(bytes_of(call));
  Choice made =
      choose(comm, {.op = op_of(call), .bytes = bytes, .eight_bit_float = eight_bit_float});
  if (pace) made.prediction = machine_time(*pace, comm, made, bytes);
  return chosen_.emplace(question, made).first->second;
}

const Machine* NcclModel::machine(std::span<const std::uint32_t> gpus) const {
  if (!machine_) return nullptr;
  const Communicator& comm = communicator(gpus);
  if (!last_.machine) {
    last_.machine = machine_;
    last_.machine->network = network_of({.cluster = cluster_, .gpus = gpus}, comm);
  }
  return &*last_.machine;
}

std::vector<Phase> NcclModel::exchange(const Call& call,
                                       std::span<const std::uint32_t> gpus) const {
  std::vector<Phase> phases = others_.phases(with_algorithm(call, "direct"), gpus);
  if (!machine_ || phases.size() != 1) return phases;
  const auto bytes = static_cast<double>(bytes_of(call));
  const Prediction price = exchange_time(*machine(gpus), communicator(gpus), op_of(call), bytes);
  Phase& phase = phases.front();
  phase.latency = Seconds{price.latency_us * 1e-6};
  // The prediction is the time of the busiest GPU, so the cap of all flows is the rate of the
  // largest one.
  double busiest = 0.0;
  for (const MultiLinkFlow& flow : phase.flows) busiest = std::max(busiest, payload(flow));
  for (MultiLinkFlow& flow : phase.flows)
    flow.rate_cap_bytes_per_s = busiest / (price.transfer_us(bytes) * 1e-6);
  return phases;
}

// Selects the registered algorithm that replaces NCCL: the fastest one on an idle fabric. The
// choice is cached by operation, bytes and number of ranks, so the placement of the first such
// group determines it.
Call NcclModel::stand_in(const Call& call, std::span<const std::uint32_t> gpus) const {
  const CollectiveOp op = op_of(call);
  const auto [entry, fresh] = stand_ins_.try_emplace({op, bytes_of(call), gpus.size()});
  if (fresh) {
    std::optional<Seconds> best;
    const PlacedGroup placed{.cluster = cluster_, .gpus = gpus, .matrix = matrix_of(call)};
    for (const std::string_view name : {"ring", "tree", "chain", "direct"}) {
      const CollectiveAlgorithm* algorithm = find_algorithm(op, name);
      // "direct" is only the last resort, for operations that have none of the others.
      if (algorithm == nullptr || algorithm->refusal(placed) || (best && name == "direct"))
        continue;
      const Call played = with_algorithm(call, std::string(name));
      const Seconds time = time_alone(cluster_, others_.phases(played, gpus));
      if (best && time >= *best) continue;
      best = time;
      entry->second = name;
    }
  }
  return with_algorithm(call, entry->second);
}

std::vector<Phase> NcclModel::phases(const Call& call, std::span<const std::uint32_t> gpus) const {
  if (!chooses(call, gpus)) return others_.phases(call, gpus);
  if (!is_tuned(op_of(call))) return exchange(call, gpus);
  if (!host_ && options_.allow_fallback) return others_.phases(stand_in(call, gpus), gpus);
  return lower({.cluster = cluster_, .gpus = gpus}, *choice(call, gpus),
               static_cast<double>(bytes_of(call)));
}

SelectedAlgorithm NcclModel::selected_algorithm(const Call& call,
                                                std::span<const std::uint32_t> gpus) const {
  if (!chooses(call, gpus)) return others_.selected_algorithm(call, gpus);
  if (!host_ && (options_.allow_fallback || !is_tuned(op_of(call))))
    return others_.selected_algorithm(stand_in(call, gpus), gpus);
  if (const auto chosen = choice(call, gpus))
    return {.algorithm = std::string(to_string(chosen->method.algorithm)),
            .protocol = std::string(to_string(chosen->method.protocol)),
            .channels = chosen->launch.channels,
            .label = "nccl: " + to_text(*chosen)};
  const Communicator& comm = communicator(gpus);
  return {.algorithm = "direct",
          .channels = comm.p2p_channels,
          .label = fmt::format("nccl: {} channels, {} a peer", comm.p2p_channels,
                               comm.p2p_channels_per_peer)};
}

std::string NcclModel::stepwise_name(const Call& call, std::span<const std::uint32_t> gpus) const {
  if (!chooses(call, gpus)) return std::string(algorithm_of(call));
  if (!is_tuned(op_of(call))) return "direct";
  if (!host_ && options_.allow_fallback) return std::string(algorithm_of(stand_in(call, gpus)));
  const Choice chosen = *choice(call, gpus);
  const auto name = stepwise_algorithm(chosen, communicator(gpus).nodes > 1);
  if (name) return *name;
  const std::string_view algorithm = to_string(chosen.method.algorithm);
  throw RunError(
      fmt::format("{} of {}: NCCL takes {}, in which switches take part and which cannot be "
                  "played message by message (exclude it with NCCL_ALGO=^{}, in a scenario "
                  "\"collectives\": {{\"nccl\": {{\"algo\": \"^{}\"}}}}, or use the fluid model)",
                  to_string(op_of(call)), describe(gpus), algorithm, algorithm, algorithm));
}

}  // namespace trainyard::nccl
