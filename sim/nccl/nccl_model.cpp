#include "sim/nccl/nccl_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/base/error.hpp"
#include "sim/collectives/loads.hpp"

namespace trainyard::nccl {

namespace {

constexpr std::uint32_t kUnread = std::numeric_limits<std::uint32_t>::max();

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
    : cluster_(cluster), options_(std::move(options)), others_(cluster) {
  options_.collnet = options_.collnet || cluster.facts().fabric_reduces;
  host_ = facts_of(cluster.facts().gpu);
}

std::optional<HostFacts> NcclModel::facts_of(const std::string& profile) const {
  std::optional<HostFacts> facts = host_facts(profile, cluster_.facts().node);
  // A GPU that NCCL's data do not contain can still be simulated if the options give its compute
  // capability.
  if (!facts && options_.sm) facts = HostFacts{};
  if (!facts) return {};
  if (options_.sm) {
    facts->sm = *options_.sm;
    facts->nvlink = nvlink_facts(*options_.sm);
  }
  facts->cpu = options_.cpu.value_or(facts->cpu);
  return facts;
}

const std::optional<Machine>& NcclModel::machine_of(std::uint32_t sm) const {
  const auto [entry, fresh] = machines_.try_emplace(sm);
  const auto measured = fresh && options_.machine ? machine_model(sm) : std::nullopt;
  if (measured)
    entry->second = Machine{.gpu = *measured,
                            .protocols = protocol_model(),
                            .messages = message_model(),
                            .network = {}};
  return entry->second;
}

PricedBy NcclModel::priced_by() const {
  if (!host_ || !machine_of(host_->sm)) return PricedBy::NoGpu;
  const std::vector<std::uint32_t>& measured = machine_of(host_->sm)->gpu.measured_on;
  const bool here = std::find(measured.begin(), measured.end(), host_->sm) != measured.end();
  return here ? PricedBy::ThisGpu : PricedBy::ItsGeneration;
}

const Communicator& NcclModel::communicator(std::span<const std::uint32_t> gpus) const {
  if (const Communicator* found = find_communicator(gpus)) return *found;
  const auto unknown = std::ranges::find_if(
      gpus, [&](std::uint32_t gpu) { return !facts_of(cluster_.gpu_kind(gpu).profile); });
  throw RunError(
      fmt::format("nccl on {}: \"{}\" is no GPU of NVIDIA that NCCL's data know (choose "
                  "another algorithm, such as ring)",
                  describe(gpus), cluster_.gpu_kind(*unknown).profile));
}

const Communicator* NcclModel::find_communicator(std::span<const std::uint32_t> gpus) const {
  if (!host_ && !cluster_.has_mixed_gpus()) return nullptr;
  if (!std::ranges::equal(last_.gpus, gpus))
    last_ = {.gpus = {gpus.begin(), gpus.end()}, .communicator = communicator_of_group(gpus)};
  return last_.communicator;
}

std::uint32_t NcclModel::links_number(std::uint32_t gpu) const {
  links_of_gpu_.resize(cluster_.gpus().size(), kUnread);
  std::uint32_t& number = links_of_gpu_[gpu];
  if (number != kUnread) return number;
  const auto [entry, fresh] = number_of_links_.try_emplace(
      gpu_links(cluster_, gpu), static_cast<std::uint32_t>(gpus_.size()));
  if (fresh) gpus_.push_back({.links = &entry->first, .facts = facts_of(entry->first.profile)});
  return number = entry->second;
}

NcclModel::Shape NcclModel::shape_of(std::span<const std::uint32_t> gpus,
                                     const Placement& placement) const {
  // NCCL uses the minimum over all nodes, so the nodes with the fewest members determine the
  // graphs.
  const std::size_t fewest = placement.smallest();
  std::uint32_t least_sm = std::numeric_limits<std::uint32_t>::max();
  std::set<std::vector<std::uint32_t>> kinds;
  std::vector<std::uint32_t> kind;
  for (const std::vector<std::uint32_t>& node : placement.nodes) {
    kind.clear();
    for (const std::uint32_t group_rank : node) {
      kind.push_back(links_number(gpus[group_rank]));
      const std::optional<HostFacts>& facts = gpus_[kind.back()].facts;
      least_sm = std::min(least_sm, facts ? facts->sm : 0);
    }
    if (node.size() == fewest) kinds.insert(kind);
  }
  return {gpus.size(), placement.nodes.size(), least_sm, std::move(kinds)};
}

const Communicator* NcclModel::communicator_of_group(std::span<const std::uint32_t> gpus) const {
  const Placement placement = placement_of({.cluster = cluster_, .gpus = gpus});
  Shape shape = shape_of(gpus, placement);
  const auto& [ranks, nodes, least_sm, kinds] = shape;
  if (least_sm == 0) return nullptr;
  if (const auto found = known_.find(shape); found != known_.end()) return found->second;
  std::vector<NodeView> views;
  for (const std::vector<std::uint32_t>& kind : kinds) {
    std::vector<const GpuLinks*> members;
    for (const std::uint32_t number : kind) members.push_back(gpus_[number].links);
    const auto sm_of = [&](std::uint32_t number) { return gpus_[number].facts->sm; };
    const HostFacts& facts = *gpus_[*std::ranges::min_element(kind, {}, sm_of)].facts;
    NodeView view = node_view(members, nodes > 1 ? WithNics::Yes : WithNics::No, facts);
    if (std::ranges::find(views, view) == views.end()) views.push_back(std::move(view));
  }
  std::ranges::stable_sort(views, {}, usable_nic_rate);
  const CommunicatorShape wanted{.node = views.front(),
                                 .ranks = static_cast<std::uint32_t>(ranks),
                                 .nodes = static_cast<std::uint32_t>(nodes),
                                 .others = {views.begin() + 1, views.end()},
                                 .least_sm = least_sm};
  // CollNet requires the same number of members on every node.
  const Communicator& communicator = communicator_of(wanted, options_.collnet && placement.even());
  return known_.emplace(std::move(shape), &communicator).first->second;
}

const Communicator& NcclModel::communicator_of(CommunicatorShape shape, bool collnet) const {
  for (const Made& made : made_)
    if (made.collnet == collnet && made.shape == shape) return made.communicator;
  Options options = options_;
  options.collnet = collnet;
  Communicator communicator = make_communicator(shape, options);
  if (!machine_of(communicator.node.sm)) count_as_carried(communicator);
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
  // it, but not in its rate.
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
  const Communicator* comm = find_communicator(gpus);
  if (comm == nullptr || !machine_of(comm->node.sm)) return nullptr;
  if (!last_.machine) {
    last_.machine = machine_of(comm->node.sm);
    last_.machine->network = network_of({.cluster = cluster_, .gpus = gpus}, *comm);
  }
  return &*last_.machine;
}

std::vector<Phase> NcclModel::exchange(const Call& call,
                                       std::span<const std::uint32_t> gpus) const {
  std::vector<Phase> phases = others_.phases(with_algorithm(call, "direct"), gpus);
  const Machine* pace = machine(gpus);
  if (pace == nullptr || phases.size() != 1) return phases;
  const auto bytes = static_cast<double>(bytes_of(call));
  const Prediction price = exchange_time(*pace, communicator(gpus), op_of(call), bytes);
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
  if (options_.allow_fallback && find_communicator(gpus) == nullptr)
    return others_.phases(stand_in(call, gpus), gpus);
  return lower({.cluster = cluster_, .gpus = gpus}, *choice(call, gpus),
               static_cast<double>(bytes_of(call)));
}

SelectedAlgorithm NcclModel::selected_algorithm(const Call& call,
                                                std::span<const std::uint32_t> gpus) const {
  if (!chooses(call, gpus)) return others_.selected_algorithm(call, gpus);
  const bool may_stand_in = options_.allow_fallback || !is_tuned(op_of(call));
  if (may_stand_in && find_communicator(gpus) == nullptr)
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
  if (options_.allow_fallback && find_communicator(gpus) == nullptr)
    return std::string(algorithm_of(stand_in(call, gpus)));
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
