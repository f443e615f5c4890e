// The stepwise model: collectives replaced by their messages (expand_collectives in
// collective.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "models/collectives/blocks.hpp"
#include "models/collectives/relay.hpp"
#include "models/collectives/selection.hpp"
#include "sim/base/check.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kStreamsMost = 256;  // Operation::stream is one byte
constexpr std::size_t kSlotsMost = 65536;  // Operation::slot is two

// A collective's messages, and which of them each role sends or receives, in order. Those that meet
// in switches move as one and are listed once, by the key of the relay.
struct Lowered {
  std::vector<Message> messages;
  std::vector<std::uint32_t> calls;  // by message, index into the new calls
  std::vector<std::vector<std::uint32_t>> of_role;
  std::unordered_map<std::uint32_t, Relay> relays;  // by key
};

// The new program of one rank while it grows.
struct RankProgram {
  Program program;
  std::vector<SlotBinding> slots;
  std::map<GroupId, std::uint16_t> slot_of;  // of the pairs added so far
  std::vector<OpIndex> end_of;  // by old operation: the new one that stands for its end
};

// Who sends to whom on which channel of a group.
struct Connection {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t channel = 0;
  bool operator==(const Connection&) const = default;
};

struct ConnectionHash {
  std::size_t operator()(const Connection& at) const {
    constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15ULL;
    const std::uint64_t both = (std::uint64_t{at.from} << 32U | at.to) * kSpread;
    return (both ^ (both >> 29U) ^ at.channel) * kSpread;
  }
};

class Expansion {
 public:
  Expansion(const Workload& from, const Cluster& cluster, const AlgorithmOf& algorithm_of)
      : from_(from), cluster_(cluster), algorithm_of_(algorithm_of) {}
  Workload run() &&;

 private:
  void start();
  void expand_rank(RankId rank);
  void copy(RankProgram& rank, const Program& program, const Operation& op);
  void expand(RankProgram& rank, const Program& program, const Operation& op);
  // Appends the messages of `lowered` in which the role takes part; returns the last operation of
  // each stream.
  std::map<std::uint8_t, OpIndex> add_messages(RankProgram& rank, const Operation& op,
                                               const Lowered& lowered, OpIndex gate);

  const Lowered& lowered(GroupId group, std::uint32_t call);
  Lowered lower(const Group& group, const Call& call);
  std::uint32_t step_call(const Call& call, std::int64_t bytes, bool goes_on);
  // Replaces the messages that meet in switches: one call and one entry for each of their members.
  void lower_relays(Lowered& made, const Call& call, const Cut& cut,
                    std::span<const DeviceId> parties, const std::vector<bool>& goes_on);
  OpIndex add_relay(RankProgram& rank, Operation op, const Lowered& lowered, const Relay& relay,
                    std::vector<OpIndex> dependencies,
                    std::unordered_map<std::uint32_t, OpIndex>& received);
  std::uint32_t known_call(const Call& call);
  std::uint32_t delay(Seconds time);
  std::uint8_t stream(std::uint8_t of, std::uint32_t channel, bool receives);
  GroupId pair(GroupId group, const Message& message);
  GroupId relay_group(GroupId group, const Relay& relay, std::uint32_t channel);
  std::uint16_t slot(RankProgram& rank, GroupId group, std::uint32_t role);

  const Workload& from_;
  const Cluster& cluster_;
  const AlgorithmOf& algorithm_of_;
  Workload to_;
  std::map<std::pair<GroupId, std::uint32_t>, Lowered> lowered_;
  std::map<Call, std::uint32_t> step_calls_;
  std::map<double, std::uint32_t> delays_;
  std::map<std::tuple<std::uint8_t, std::uint32_t, bool>, std::uint8_t> streams_;
  // By group: messages of one channel between the same two keep their order.
  std::unordered_map<GroupId, std::unordered_map<Connection, GroupId, ConnectionHash>> pairs_;
  std::map<std::tuple<GroupId, std::uint32_t, std::vector<std::uint32_t>>, GroupId> relay_groups_;
};

OpIndex append(Program& program, Operation op, std::span<const OpIndex> dependencies,
               std::span<const MemoryEffect> effects) {
  op.dependencies_begin = static_cast<std::uint32_t>(program.dependencies.size());
  program.dependencies.insert(program.dependencies.end(), dependencies.begin(), dependencies.end());
  op.dependencies_end = static_cast<std::uint32_t>(program.dependencies.size());
  op.effects_begin = static_cast<std::uint32_t>(program.effects.size());
  program.effects.insert(program.effects.end(), effects.begin(), effects.end());
  op.effects_end = static_cast<std::uint32_t>(program.effects.size());
  program.operations.push_back(op);
  return static_cast<OpIndex>(program.operations.size() - 1);
}

std::vector<OpIndex> moved_dependencies(const RankProgram& rank, const Program& program,
                                        const Operation& op) {
  std::vector<OpIndex> moved;
  for (const OpIndex before : program.dependencies_of(op)) moved.push_back(rank.end_of[before]);
  return moved;
}

std::vector<MemoryEffect> effects_at(const Program& program, const Operation& op, bool at_end) {
  std::vector<MemoryEffect> effects;
  for (const MemoryEffect& effect : program.effects_of(op))
    if (effect.at_end == at_end) effects.push_back(effect);
  return effects;
}

Workload Expansion::run() && {
  start();
  for (RankId rank = 0; rank < from_.ranks.size(); ++rank) expand_rank(rank);
  std::size_t slots = 0;
  for (const Rank& rank : to_.ranks) slots = std::max(slots, rank.slots.size());
  for (std::size_t number = to_.slots.size(); number < slots; ++number)
    to_.slots.push_back(fmt::format("partner {}", number - from_.slots.size()));
  for (Rank& rank : to_.ranks) rank.slots.resize(slots);
  return std::move(to_);
}

void Expansion::start() {
  to_.streams = from_.streams;
  to_.names = from_.names;
  to_.categories = from_.categories;
  to_.slots = from_.slots;
  to_.kernels = from_.kernels;
  to_.calls = from_.calls;
  to_.delays = from_.delays;
  to_.groups = from_.groups;
}

void Expansion::expand_rank(RankId number) {
  const Rank& rank = from_.ranks[number];
  const Program& program = from_.programs.at(rank.program);
  RankProgram made;
  made.program.name = fmt::format("{}, rank {}", program.name, number);
  made.program.stage = program.stage;
  made.program.resident = program.resident;
  made.slots = rank.slots;
  made.slots.resize(from_.slots.size());
  for (const Operation& op : program.operations) {
    const bool calls = op.kind == OpKind::Collective;
    if (calls && from_.calls.at(op.payload).op != CollectiveOp::HostCopy)
      expand(made, program, op);
    else
      copy(made, program, op);
  }
  to_.ranks.push_back({.program = static_cast<std::uint32_t>(to_.programs.size()),
                       .gpu = rank.gpu,
                       .slots = std::move(made.slots),
                       .label = rank.label});
  to_.programs.push_back(std::move(made.program));
}

void Expansion::copy(RankProgram& rank, const Program& program, const Operation& op) {
  const OpIndex index =
      append(rank.program, op, moved_dependencies(rank, program, op), program.effects_of(op));
  rank.end_of.push_back(index);
}

void Expansion::expand(RankProgram& rank, const Program& program, const Operation& op) {
  const GroupId group = rank.slots.at(op.slot).group;
  TY_CHECK(group != kNone, op.slot);
  const bool alone = from_.groups.at(group).members.size() <= 1;
  Operation gate = op;
  gate.kind = OpKind::Delay;
  gate.payload = delay(alone ? Seconds{} : cluster_.facts().latency.launch);
  const OpIndex begun = append(rank.program, gate, moved_dependencies(rank, program, op),
                               effects_at(program, op, false));
  std::vector<OpIndex> last{begun};
  if (!alone) {
    const auto by_stream = add_messages(rank, op, lowered(group, op.payload), begun);
    for (const auto& [stream, index] : by_stream) last.push_back(index);
  }
  gate.payload = delay(Seconds{});
  rank.end_of.push_back(append(rank.program, gate, last, effects_at(program, op, true)));
}

std::map<std::uint8_t, OpIndex> Expansion::add_messages(RankProgram& rank, const Operation& op,
                                                        const Lowered& lowered, OpIndex gate) {
  const SlotBinding here = rank.slots.at(op.slot);
  std::map<std::uint8_t, OpIndex> last;
  std::unordered_map<std::uint32_t, OpIndex> received;  // by message
  for (const std::uint32_t index : lowered.of_role[here.role]) {
    const Message& message = lowered.messages[index];
    if (const auto relay = lowered.relays.find(index); relay != lowered.relays.end()) {
      Operation part = op;
      part.stream = stream(op.stream, message.channel, false);
      part.payload = lowered.calls[index];
      std::vector<OpIndex> gates;
      if (!last.contains(part.stream)) gates.push_back(gate);
      last[part.stream] = add_relay(rank, part, lowered, relay->second, std::move(gates), received);
      continue;
    }
    const bool receives = message.to == here.role;
    Operation part = op;
    part.kind = receives ? OpKind::Recv : OpKind::Send;
    part.stream = stream(op.stream, message.channel, receives);
    part.payload = lowered.calls[index];
    part.slot = slot(rank, pair(here.group, message), receives ? 1 : 0);
    std::vector<OpIndex> dependencies;
    if (!last.contains(part.stream)) dependencies.push_back(gate);
    if (!receives)
      for (const std::uint32_t before : message.after) dependencies.push_back(received.at(before));
    const OpIndex made = append(rank.program, part, dependencies, {});
    last[part.stream] = made;
    if (receives) received[index] = made;
  }
  return last;
}

OpIndex Expansion::add_relay(RankProgram& rank, Operation op, const Lowered& lowered,
                             const Relay& relay, std::vector<OpIndex> dependencies,
                             std::unordered_map<std::uint32_t, OpIndex>& received) {
  const SlotBinding here = rank.slots.at(op.slot);
  const auto role = std::ranges::lower_bound(relay.members, here.role) - relay.members.begin();
  op.slot = slot(rank, relay_group(here.group, relay, lowered.messages[relay.key].channel),
                 static_cast<std::uint32_t>(role));
  for (const std::uint32_t index : relay.messages) {
    if (lowered.messages[index].from != here.role) continue;
    for (const std::uint32_t before : lowered.messages[index].after)
      dependencies.push_back(received.at(before));
  }
  const OpIndex made = append(rank.program, op, dependencies, {});
  for (const std::uint32_t index : relay.messages)
    if (lowered.messages[index].to == here.role) received[index] = made;
  return made;
}

const Lowered& Expansion::lowered(GroupId group, std::uint32_t call) {
  const auto [entry, fresh] = lowered_.try_emplace({group, call});
  if (fresh) entry->second = lower(from_.groups.at(group), from_.calls.at(call));
  return entry->second;
}

Lowered Expansion::lower(const Group& group, const Call& call) {
  std::vector<std::uint32_t> gpus;
  for (const RankId member : group.members) gpus.push_back(from_.ranks.at(member).gpu);
  const GroupPlace place{.cluster = cluster_, .gpus = gpus, .matrix = call.matrix};
  Call named = call;
  if (algorithm_of_) named.algorithm = algorithm_of_(call, gpus);
  const CollectiveAlgorithm& algorithm = select_algorithm(named, place);
  const auto ranks = static_cast<std::uint32_t>(gpus.size());
  const Cut cut{.op = call.op, .ranks = ranks, .pieces = algorithm.pieces(place)};
  Lowered made{.messages = algorithm.messages(place, Bytes{static_cast<double>(call.bytes)}),
               .calls = {},
               .of_role = std::vector<std::vector<std::uint32_t>>(ranks),
               .relays = {}};
  made.calls.reserve(made.messages.size());
  const std::vector<bool> goes_on = follows_on(algorithm, made.messages);
  if (const std::vector<DeviceId> parties = algorithm.parties(place); !parties.empty()) {
    lower_relays(made, call, cut, parties, goes_on);
    return made;
  }
  // Most messages are of few sizes.
  std::unordered_map<std::int64_t, std::array<std::uint32_t, 2>> call_of_size;
  for (std::uint32_t index = 0; index < made.messages.size(); ++index) {
    const Message& message = made.messages[index];
    const std::int64_t size = whole_bytes_of(message, cut, call);
    std::uint32_t& sized =
        call_of_size.try_emplace(size, std::array{kNone, kNone}).first->second[goes_on[index]];
    if (sized == kNone) sized = step_call(call, size, goes_on[index]);
    made.calls.push_back(sized);
    made.of_role[message.from].push_back(index);
    made.of_role[message.to].push_back(index);
  }
  return made;
}

void Expansion::lower_relays(Lowered& made, const Call& call, const Cut& cut,
                             std::span<const DeviceId> parties, const std::vector<bool>& goes_on) {
  const std::vector<std::uint32_t> keys = relay_keys(made.messages, cut.ranks);
  made.calls.resize(made.messages.size(), kNone);
  for (Relay& relay : relays_of(made.messages, keys, cut.ranks))
    made.relays.emplace(relay.key, std::move(relay));
  std::set<std::pair<std::uint32_t, std::vector<std::uint32_t>>> seen;
  for (std::uint32_t index = 0; index < made.messages.size(); ++index) {
    const Message& message = made.messages[index];
    if (keys[index] == kNone) {
      made.calls[index] = step_call(call, whole_bytes_of(message, cut, call), goes_on[index]);
      made.of_role[message.from].push_back(index);
      made.of_role[message.to].push_back(index);
    }
    if (keys[index] != index) continue;
    const Relay& relay = made.relays.at(index);
    Call one = relay_call(made.messages, relay, parties, cut, call);
    if (!seen.emplace(message.channel, relay.members).second) one.algorithm = kRelayOn;
    made.calls[index] = known_call(one);
    for (const std::uint32_t role : relay.members) made.of_role[role].push_back(index);
  }
}

std::uint32_t Expansion::step_call(const Call& call, std::int64_t bytes, bool goes_on) {
  const Call step{.op = CollectiveOp::SendRecv,
                  .bytes = bytes,
                  .dtype = call.dtype,
                  .algorithm = goes_on ? kStepOn : kStep};
  return known_call(step);
}

std::uint32_t Expansion::known_call(const Call& call) {
  const auto [entry, fresh] =
      step_calls_.try_emplace(call, static_cast<std::uint32_t>(to_.calls.size()));
  if (fresh) to_.calls.push_back(call);
  return entry->second;
}

std::uint32_t Expansion::delay(Seconds time) {
  const auto [entry, fresh] =
      delays_.try_emplace(time.value(), static_cast<std::uint32_t>(to_.delays.size()));
  if (fresh) to_.delays.push_back(time);
  return entry->second;
}

std::uint8_t Expansion::stream(std::uint8_t of, std::uint32_t channel, bool receives) {
  const auto [entry, fresh] =
      streams_.try_emplace({of, channel, receives}, static_cast<std::uint8_t>(to_.streams.size()));
  if (!fresh) return entry->second;
  if (to_.streams.size() == kStreamsMost)
    throw RunError(
        fmt::format("played step by step the workload needs more than {} streams: channel {} "
                    "of {} has no room (use the fluid model, or an algorithm with fewer "
                    "channels, such as ring)",
                    kStreamsMost, channel, from_.streams.at(of)));
  to_.streams.push_back(fmt::format("{} channel {} {}", from_.streams.at(of), channel,
                                    receives ? "receive" : "send"));
  return entry->second;
}

GroupId Expansion::pair(GroupId group, const Message& message) {
  const auto [entry, fresh] = pairs_[group].try_emplace({message.from, message.to, message.channel},
                                                        static_cast<GroupId>(to_.groups.size()));
  if (fresh) {
    const Group& whole = from_.groups.at(group);
    to_.groups.push_back(
        {.kind = whole.kind,
         .members = {whole.members.at(message.from), whole.members.at(message.to)}});
  }
  return entry->second;
}

GroupId Expansion::relay_group(GroupId group, const Relay& relay, std::uint32_t channel) {
  const auto [entry, fresh] = relay_groups_.try_emplace({group, channel, relay.members},
                                                        static_cast<GroupId>(to_.groups.size()));
  if (fresh) {
    Group made{.kind = from_.groups.at(group).kind, .members = {}};
    for (const std::uint32_t role : relay.members)
      made.members.push_back(from_.groups.at(group).members.at(role));
    to_.groups.push_back(std::move(made));
  }
  return entry->second;
}

std::uint16_t Expansion::slot(RankProgram& rank, GroupId group, std::uint32_t role) {
  if (rank.slots.size() >= kSlotsMost)
    throw RunError(
        fmt::format("played step by step \"{}\" has more than {} partners (use the fluid model, "
                    "or an algorithm with fewer channels, such as ring)",
                    rank.program.name, kSlotsMost));
  const auto [entry, fresh] =
      rank.slot_of.try_emplace(group, static_cast<std::uint16_t>(rank.slots.size()));
  if (fresh) rank.slots.push_back({.group = group, .role = role});
  return entry->second;
}

}  // namespace

Workload expand_collectives(const Workload& workload, const Cluster& cluster,
                            const AlgorithmOf& algorithm_of) {
  return Expansion(workload, cluster, algorithm_of).run();
}

}  // namespace trainyard
