// The stepwise model: it expands a workload so that messages replace the collectives
// (expand_collectives in collective.hpp).
//
// Method. Each rank's program is copied operation by operation; a collective becomes a Delay (the
// launch), the sends and receives of the rank, and a zero Delay that joins them. Each pair of ranks
// that exchanges messages on a channel becomes a group of two, and the program refers to it by a
// slot. Two caches keep the result small: CallPlayer computes the messages once per group and call,
// and ranks whose collectives are equal up to a rotation of their groups share one expanded
// program. Such ranks differ only in the groups bound to their slots.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/collectives/collective.hpp"
#include "sim/collectives/messages.hpp"
#include "sim/collectives/switches.hpp"

namespace trainyard {

namespace {

// One collective call as messages, with the list of messages that each group rank sends or
// receives. Messages that meet in switches move as one relay; the list contains them once, under
// the key of the relay.
struct CallMessages {
  std::vector<Message> messages = {};
  std::vector<std::uint32_t> calls = {};  // by message, index into the calls of the new workload
  std::vector<std::vector<std::uint32_t>> of_group_rank = {};
  std::unordered_map<std::uint32_t, Relay> relays = {};  // by key
  // Number of the equivalence class of this call, if every member's messages are those of one of
  // the first members up to a rotation (RotatedMessages). Only the messages of the first members
  // are stored then, and calls of one class have equal messages. kNone: the members differ.
  std::uint32_t equivalence_class = kNone;

  [[nodiscard]] bool turns() const { return equivalence_class != kNone; }
  // The group rank whose stored messages represent those of `group_rank`.
  [[nodiscard]] std::uint32_t like(std::uint32_t group_rank) const {
    return group_rank % static_cast<std::uint32_t>(of_group_rank.size());
  }
};

// One sender, one receiver and one channel of a group.
struct Connection {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t channel = 0;
  bool operator==(const Connection&) const = default;
};

// The connection with both endpoints rotated by `by` group ranks in a group of `members`.
Connection turned(const Connection& at, std::uint32_t by, std::size_t members) {
  const auto size = static_cast<std::uint32_t>(members);
  return {.from = (at.from + by) % size, .to = (at.to + by) % size, .channel = at.channel};
}

// Computes the messages of calls and the calls that carry them.
class CallPlayer {
 public:
  // Appends the calls of the messages to `calls`, which must outlive this object.
  CallPlayer(const Cluster& cluster, const AlgorithmOf& algorithm_of, std::vector<Call>& calls)
      : cluster_(cluster), algorithm_of_(algorithm_of), calls_(calls) {}

  // Throws RunError under the same conditions as AlgorithmModel.
  [[nodiscard]] CallMessages play(std::span<const std::uint32_t> gpus, const Call& call);

 private:
  [[nodiscard]] CallMessages play_turned(const Call& named, const Call& call, const Cut& cut,
                                         RotatedMessages turned);
  void list_messages(CallMessages& played, const Call& call, const Cut& cut,
                     const std::vector<bool>& goes_on);
  // For an algorithm with switches: lists one call for each relay and one entry for each of its
  // members.
  void list_relays(CallMessages& played, const Call& call, const Cut& cut,
                   std::span<const DeviceId> switches, const std::vector<bool>& goes_on);
  [[nodiscard]] std::uint32_t step_call(const Call& call, std::int64_t bytes, bool goes_on);
  [[nodiscard]] std::uint32_t known_call(const Call& call);

  const Cluster& cluster_;
  const AlgorithmOf& algorithm_of_;
  std::vector<Call>& calls_;
  std::map<Call, std::uint32_t> known_;
  // By call, size of the group and turn: the number of the equivalence class.
  std::map<std::tuple<Call, std::uint32_t, std::uint32_t>, std::uint32_t> likenesses_;
};

// By message: true if the algorithm streams() and an earlier message has the same sender, receiver
// and channel.
std::vector<bool> follows_on(const CollectiveAlgorithm& algorithm,
                             std::span<const Message> messages) {
  std::vector<bool> follows(messages.size(), false);
  if (!algorithm.streams()) return follows;
  std::set<std::array<std::uint32_t, 3>> begun;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    follows[i] = !begun.insert({message.from, message.to, message.channel}).second;
  }
  return follows;
}

// The rotated form needs pieces of equal size in whole bytes, because otherwise the members send
// different numbers of bytes.
CallMessages CallPlayer::play(std::span<const std::uint32_t> gpus, const Call& call) {
  const PlacedGroup placed{.cluster = cluster_, .gpus = gpus, .matrix = matrix_of(call)};
  const Call named = algorithm_of_ ? with_algorithm(call, algorithm_of_(call, gpus)) : call;
  const CollectiveAlgorithm& algorithm = select_algorithm(named, placed);
  const Bytes bytes{static_cast<double>(bytes_of(call))};
  const Cut cut{.op = op_of(call),
                .ranks = static_cast<std::uint32_t>(gpus.size()),
                .pieces = algorithm.pieces(placed)};
  RotatedMessages turned;
  if (bytes_of(call) % cut.pieces == 0) turned = algorithm.rotated_messages(placed, bytes);
  if (turned.turn() > 0) return play_turned(named, call, cut, std::move(turned));
  CallMessages played;
  played.messages = algorithm.messages(placed, bytes);
  played.of_group_rank.resize(cut.ranks);
  const std::vector<bool> goes_on = follows_on(algorithm, played.messages);
  const std::vector<DeviceId> switches = algorithm.switches(placed);
  if (switches.empty()) {
    list_messages(played, call, cut, goes_on);
  } else {
    list_relays(played, call, cut, switches, goes_on);
  }
  return played;
}

// `named` is the call with the name of the algorithm that carries it.
CallMessages CallPlayer::play_turned(const Call& named, const Call& call, const Cut& cut,
                                     RotatedMessages turned) {
  CallMessages played;
  played.equivalence_class = likenesses_
                                 .try_emplace({named, cut.ranks, turned.turn()},
                                              static_cast<std::uint32_t>(likenesses_.size()))
                                 .first->second;
  played.of_group_rank.resize(turned.turn());
  for (std::uint32_t group_rank = 0; group_rank < turned.turn(); ++group_rank) {
    const auto first = static_cast<std::uint32_t>(played.messages.size());
    for (Message& message : turned.of_group_rank[group_rank]) {
      for (std::uint32_t& before : message.after) before += first;
      played.of_group_rank[group_rank].push_back(
          static_cast<std::uint32_t>(played.messages.size()));
      played.calls.push_back(step_call(call, whole_bytes_of(message, cut, call), false));
      played.messages.push_back(std::move(message));
    }
  }
  return played;
}

void CallPlayer::list_messages(CallMessages& played, const Call& call, const Cut& cut,
                               const std::vector<bool>& goes_on) {
  // Messages have few distinct sizes, so a table by size saves most look-ups of whole calls.
  std::unordered_map<std::int64_t, std::array<std::uint32_t, 2>> call_of_size;
  played.calls.reserve(played.messages.size());
  for (std::uint32_t index = 0; index < played.messages.size(); ++index) {
    const Message& message = played.messages[index];
    const std::int64_t size = whole_bytes_of(message, cut, call);
    std::uint32_t& sized =
        call_of_size.try_emplace(size, std::array{kNone, kNone}).first->second[goes_on[index]];
    if (sized == kNone) sized = step_call(call, size, goes_on[index]);
    played.calls.push_back(sized);
    played.of_group_rank[message.from].push_back(index);
    played.of_group_rank[message.to].push_back(index);
  }
}

void CallPlayer::list_relays(CallMessages& played, const Call& call, const Cut& cut,
                             std::span<const DeviceId> switches, const std::vector<bool>& goes_on) {
  const std::vector<std::uint32_t> keys = relay_keys(played.messages, cut.ranks);
  played.calls.resize(played.messages.size(), kNone);
  for (Relay& relay : relays_of(played.messages, keys, cut.ranks))
    played.relays.emplace(relay.key, std::move(relay));
  std::set<std::pair<std::uint32_t, std::vector<std::uint32_t>>> seen;
  for (std::uint32_t index = 0; index < played.messages.size(); ++index) {
    const Message& message = played.messages[index];
    if (keys[index] == kNone) {
      played.calls[index] = step_call(call, whole_bytes_of(message, cut, call), goes_on[index]);
      played.of_group_rank[message.from].push_back(index);
      played.of_group_rank[message.to].push_back(index);
    }
    // The relay is listed at its key, the last message that a rank sends into it. The ranks then
    // have listed all messages for which they wait.
    if (keys[index] != index) continue;
    const Relay& relay = played.relays.at(index);
    RelayCall one = relay_call(played.messages, relay, switches, cut, call);
    one.follows = !seen.emplace(message.channel, relay.members).second;
    played.calls[index] = known_call(one);
    for (const std::uint32_t group_rank : relay.members)
      played.of_group_rank[group_rank].push_back(index);
  }
}

std::uint32_t CallPlayer::step_call(const Call& call, std::int64_t bytes, bool goes_on) {
  return known_call(TransferCall{.bytes = bytes,
                                 .dtype = dtype_of(call),
                                 .kind = goes_on ? MessageKind::FollowingStep : MessageKind::Step});
}

std::uint32_t CallPlayer::known_call(const Call& call) {
  const auto [entry, fresh] = known_.try_emplace(call, static_cast<std::uint32_t>(calls_.size()));
  if (fresh) calls_.push_back(call);
  return entry->second;
}

constexpr std::size_t kStreamsMost = 256;  // Operation::stream is one byte
constexpr std::size_t kSlotsMost = 65536;  // Operation::slot is two bytes

// A slot that the expansion added to a shared program, as seen by the first rank with this program.
// Each other rank obtains its group for the slot by rotating `at`.
struct Partner {
  std::uint16_t group_slot = 0;  // slot of the collective's group, which contains the pair
  std::uint32_t turn = 1;        // a rotation by this many group ranks maps the group to itself
  Connection at;
  std::uint32_t group_rank = 0;  // in the pair: 0 sends, 1 receives
};

// The expanded program of one rank, while it is built.
struct RankProgram {
  Program program;
  std::vector<SlotBinding> slots;
  std::map<GroupId, std::uint16_t> slot_of;  // slot added for each pair
  std::vector<Partner> partners;             // by added slot, if the members are equivalent
  std::vector<OpIndex> end_of;               // by old operation, the new one that ends it
};

// An expanded program. All ranks share it that have the same old program and whose collectives are
// in the same equivalence classes at the same representative group ranks.
struct SharedProgram {
  std::uint32_t program = 0;
  std::vector<Partner> partners;
};

struct ConnectionHash {
  std::size_t operator()(const Connection& at) const {
    constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15ULL;
    const std::uint64_t both = (std::uint64_t{at.from} << 32U | at.to) * kSpread;
    return (both ^ (both >> 29U) ^ at.channel) * kSpread;
  }
};

// Example: with one ring, an all_reduce of 4 ranks turns into 2 (4 - 1) = 6 sends and 6 receives
// per rank, between two Delays. All ranks send the same messages up to a rotation, so they share
// one program, and each binds its own pairs to the slots.
class Expansion {
 public:
  Expansion(const Workload& from, const Cluster& cluster, const AlgorithmOf& algorithm_of)
      : from_(from), cluster_(cluster), player_(cluster, algorithm_of, to_.calls) {}
  Workload run() &&;

 private:
  void start();
  void expand_rank(RankId rank);
  // Returns the number of the rank's new program, and appends the groups of the added slots to
  // `slots`.
  std::uint32_t program_of(RankId rank, std::vector<SlotBinding>& slots);
  RankProgram grown(const Rank& rank);
  // The key of the rank's shared program: the equivalence classes of its collectives, each with the
  // representative of its group rank. Nothing if some collective's members differ.
  std::optional<std::vector<std::uint32_t>> equivalence_key_of(const Rank& rank);
  void copy(RankProgram& rank, const Program& program, const Operation& op);
  void expand(RankProgram& rank, const Program& program, const Operation& op);
  // Appends the messages of `played` that the group rank sends or receives. Returns the last
  // operation of each stream.
  std::map<std::uint8_t, OpIndex> add_messages(RankProgram& rank, const Operation& op,
                                               const CallMessages& played, OpIndex gate);

  const CallMessages& played(GroupId group, std::uint32_t call);
  OpIndex add_relay(RankProgram& rank, Operation op, const CallMessages& played, const Relay& relay,
                    std::vector<OpIndex> dependencies,
                    std::unordered_map<std::uint32_t, OpIndex>& received);
  std::uint32_t delay(Seconds time);
  std::uint8_t stream(std::uint8_t of, std::uint32_t channel, bool receives);
  GroupId pair(GroupId group, const Connection& at);
  GroupId relay_group(GroupId group, const Relay& relay, std::uint32_t channel);
  std::uint16_t slot(RankProgram& rank, GroupId group, std::uint32_t group_rank);
  // The slot of the pair between which a message of a collective travels.
  std::uint16_t partner_slot(RankProgram& rank, std::uint16_t group_slot,
                             const CallMessages& played, const Message& message);

  const Workload& from_;
  const Cluster& cluster_;
  Workload to_;
  CallPlayer player_;
  std::map<std::pair<GroupId, std::uint32_t>, CallMessages> played_;
  // By program: slot and call of each of its collectives.
  std::map<std::uint32_t, std::set<std::pair<std::uint16_t, std::uint32_t>>> collectives_;
  // By old program and equivalence classes.
  std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, SharedProgram> shared_;
  std::map<double, std::uint32_t> delays_;
  std::map<std::tuple<std::uint8_t, std::uint32_t, bool>, std::uint8_t> streams_;
  // By group and connection, the group of two. Messages between the same two members on different
  // channels use different groups, so messages of one channel keep their order.
  std::unordered_map<GroupId, std::unordered_map<Connection, GroupId, ConnectionHash>> pairs_;
  std::map<std::tuple<GroupId, std::uint32_t, std::vector<std::uint32_t>>, GroupId> relay_groups_;
};

// The number of the next operation of the old program.
OpIndex next_of(const RankProgram& rank) { return static_cast<OpIndex>(rank.end_of.size()); }

// Dependencies of the next operation, renumbered for the expanded program.
std::vector<OpIndex> moved_dependencies(const RankProgram& rank, const Program& program) {
  const OpIndex op = next_of(rank);
  std::vector<OpIndex> moved;
  for (const OpIndex before : program.dependencies_of(op)) moved.push_back(rank.end_of[before]);
  return moved;
}

std::vector<MemoryEffect> effects_at(const Program& program, OpIndex op, bool at_end) {
  std::vector<MemoryEffect> effects;
  for (const MemoryEffect& effect : program.effects_of(op))
    if (effect.at_end == at_end) effects.push_back(effect);
  return effects;
}

Workload Expansion::run() && {
  start();
  for (RankId rank = 0; rank < from_.ranks.size(); ++rank) expand_rank(rank);
  std::size_t slots = 0;
  // All ranks of a workload have the same number of slots. Slots that a rank does not use stay
  // unbound.
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
  to_.chosen_fields = from_.chosen_fields;
}

// True for a call that is expanded. A relay is one step of a collective already.
bool is_played(const Workload& workload, const Operation& op) {
  if (op.kind != OpKind::Collective) return false;
  const Call& call = workload.calls.at(op.payload);
  return std::holds_alternative<CollectiveCall>(call) || std::holds_alternative<TransferCall>(call);
}

void Expansion::expand_rank(RankId number) {
  const Rank& rank = from_.ranks[number];
  std::vector<SlotBinding> slots = rank.slots;
  slots.resize(from_.slots.size());
  const std::uint32_t program = program_of(number, slots);
  to_.ranks.push_back(
      {.program = program, .gpu = rank.gpu, .slots = std::move(slots), .label = rank.label});
}

std::uint32_t Expansion::program_of(RankId number, std::vector<SlotBinding>& slots) {
  const Rank& rank = from_.ranks[number];
  const std::optional<std::vector<std::uint32_t>> equivalence_class = equivalence_key_of(rank);
  const auto next = static_cast<std::uint32_t>(to_.programs.size());
  if (!equivalence_class) {
    RankProgram made = grown(rank);
    made.program.name = fmt::format("{}, rank {}", made.program.name, number);
    slots = std::move(made.slots);
    to_.programs.push_back(std::move(made.program));
    return next;
  }
  const auto [known, fresh] = shared_.try_emplace({rank.program, *equivalence_class});
  SharedProgram& shared = known->second;
  if (fresh) {
    RankProgram made = grown(rank);
    shared = {.program = next, .partners = std::move(made.partners)};
    slots = std::move(made.slots);
    to_.programs.push_back(std::move(made.program));
    return next;
  }
  // The program is shared. The members of this rank's groups follow from those of the first rank by
  // a rotation of each group by a multiple of its turn.
  // The operations name their slots by number, so the slots are appended in the order in which
  // grown() added them. Rotated calls have no relays, so every added slot has a Partner.
  for (const Partner& partner : shared.partners) {
    const auto [group, group_rank] = rank.slots.at(partner.group_slot);
    const std::size_t members = from_.groups.at(group).members.size();
    const std::uint32_t by = group_rank - group_rank % partner.turn;
    slots.push_back(
        {.group = pair(group, turned(partner.at, by, members)), .group_rank = partner.group_rank});
  }
  return shared.program;
}

RankProgram Expansion::grown(const Rank& rank) {
  const Program& program = from_.programs.at(rank.program);
  RankProgram made;
  made.program.name = program.name;
  made.program.stage = program.stage;
  made.program.resident = program.resident;
  made.program.kernels = program.kernels;
  made.slots = rank.slots;
  made.slots.resize(from_.slots.size());
  for (const Operation& op : program.operations) {
    if (is_played(from_, op))
      expand(made, program, op);
    else
      copy(made, program, op);
  }
  return made;
}

std::optional<std::vector<std::uint32_t>> Expansion::equivalence_key_of(const Rank& rank) {
  const auto [known, fresh] = collectives_.try_emplace(rank.program);
  if (fresh)
    for (const Operation& op : from_.programs.at(rank.program).operations.written())
      if (is_played(from_, op)) known->second.emplace(op.slot, op.payload);
  // Per collective: kNone for a group of one rank, otherwise the number of the class and the
  // representative. No class has the number kNone, so keys of different layout differ.
  std::vector<std::uint32_t> equivalence_class;
  for (const auto& [slot, call] : known->second) {
    const auto [group, group_rank] = rank.slots.at(slot);
    TY_CHECK(group != kNone, slot);
    equivalence_class.push_back(kNone);  // a group of one rank sends nothing
    if (from_.groups.at(group).members.size() <= 1) continue;
    const CallMessages& call_here = played(group, call);
    if (!call_here.turns()) return {};
    equivalence_class.back() = call_here.equivalence_class;
    equivalence_class.push_back(call_here.like(group_rank));
  }
  return equivalence_class;
}

void Expansion::copy(RankProgram& rank, const Program& program, const Operation& op) {
  const OpIndex index =
      rank.program.append(op, moved_dependencies(rank, program), program.effects_of(next_of(rank)));
  rank.end_of.push_back(index);
}

void Expansion::expand(RankProgram& rank, const Program& program, const Operation& op) {
  const GroupId group = rank.slots.at(op.slot).group;
  TY_CHECK(group != kNone, op.slot);
  const bool alone = from_.groups.at(group).members.size() <= 1;
  Operation gate = op;
  gate.kind = OpKind::Delay;
  gate.payload = delay(alone ? Seconds{} : cluster_.facts().latency.launch);
  // The memory effects at the start belong to the gate, those at the end to the final Delay. Every
  // first operation of a stream depends on the gate, and the final Delay on every last one.
  const OpIndex number = next_of(rank);
  const OpIndex begun = rank.program.append(gate, moved_dependencies(rank, program),
                                            effects_at(program, number, false));
  std::vector<OpIndex> last{begun};
  if (!alone) {
    const auto by_stream = add_messages(rank, op, played(group, op.payload), begun);
    for (const auto& [stream, index] : by_stream) last.push_back(index);
  }
  gate.payload = delay(Seconds{});
  rank.end_of.push_back(rank.program.append(gate, last, effects_at(program, number, true)));
}

std::map<std::uint8_t, OpIndex> Expansion::add_messages(RankProgram& rank, const Operation& op,
                                                        const CallMessages& played, OpIndex gate) {
  const SlotBinding here = rank.slots.at(op.slot);
  const std::uint32_t self = played.like(here.group_rank);
  std::map<std::uint8_t, OpIndex> last;
  std::unordered_map<std::uint32_t, OpIndex> received;  // by message
  // Operations of one stream run in order, so only the first one needs the gate. A receive has no
  // other dependency; a send waits for the receives of the data that it carries on.
  for (const std::uint32_t index : played.of_group_rank[self]) {
    const Message& message = played.messages[index];
    if (const auto relay = played.relays.find(index); relay != played.relays.end()) {
      Operation part = op;
      part.stream = stream(op.stream, message.channel, false);
      part.payload = played.calls[index];
      std::vector<OpIndex> gates;
      if (!last.contains(part.stream)) gates.push_back(gate);
      last[part.stream] = add_relay(rank, part, played, relay->second, std::move(gates), received);
      continue;
    }
    const bool receives = message.to == self;
    Operation part = op;
    part.kind = receives ? OpKind::Recv : OpKind::Send;
    part.stream = stream(op.stream, message.channel, receives);
    part.payload = played.calls[index];
    part.slot = partner_slot(rank, op.slot, played, message);
    std::vector<OpIndex> dependencies;
    if (!last.contains(part.stream)) dependencies.push_back(gate);
    if (!receives)
      for (const std::uint32_t before : message.after) dependencies.push_back(received.at(before));
    const OpIndex made = rank.program.append(part, dependencies);
    last[part.stream] = made;
    if (receives) received[index] = made;
  }
  return last;
}

std::uint16_t Expansion::partner_slot(RankProgram& rank, std::uint16_t group_slot,
                                      const CallMessages& played, const Message& message) {
  const auto [group, group_rank] = rank.slots.at(group_slot);
  const std::uint32_t self = played.like(group_rank);
  const std::uint32_t end = message.to == self ? 1 : 0;
  const Connection at{.from = message.from, .to = message.to, .channel = message.channel};
  const std::size_t members = from_.groups.at(group).members.size();
  const std::size_t before = rank.slots.size();
  // The stored messages are those of the representative `self`; rotate the pair to this rank's
  // position.
  const std::uint16_t number = slot(rank, pair(group, turned(at, group_rank - self, members)), end);
  if (rank.slots.size() > before)
    rank.partners.push_back({.group_slot = group_slot,
                             .turn = static_cast<std::uint32_t>(played.of_group_rank.size()),
                             .at = at,
                             .group_rank = end});
  return number;
}

OpIndex Expansion::add_relay(RankProgram& rank, Operation op, const CallMessages& played,
                             const Relay& relay, std::vector<OpIndex> dependencies,
                             std::unordered_map<std::uint32_t, OpIndex>& received) {
  const SlotBinding here = rank.slots.at(op.slot);
  const auto group_rank =
      std::ranges::lower_bound(relay.members, here.group_rank) - relay.members.begin();
  op.slot = slot(rank, relay_group(here.group, relay, played.messages[relay.key].channel),
                 static_cast<std::uint32_t>(group_rank));
  for (const std::uint32_t index : relay.messages) {
    if (played.messages[index].from != here.group_rank) continue;
    for (const std::uint32_t before : played.messages[index].after)
      dependencies.push_back(received.at(before));
  }
  const OpIndex made = rank.program.append(op, dependencies);
  for (const std::uint32_t index : relay.messages)
    if (played.messages[index].to == here.group_rank) received[index] = made;
  return made;
}

const CallMessages& Expansion::played(GroupId group, std::uint32_t call) {
  const auto [entry, fresh] = played_.try_emplace({group, call});
  if (fresh) {
    std::vector<std::uint32_t> gpus;
    for (const RankId member : from_.groups.at(group).members)
      gpus.push_back(from_.ranks.at(member).gpu);
    try {
      entry->second = player_.play(gpus, from_.calls.at(call));
    } catch (const RunError& refusal) {
      throw RefusedCall(refusal, from_, group, call);
    }
  }
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

GroupId Expansion::pair(GroupId group, const Connection& at) {
  const auto [entry, fresh] =
      pairs_[group].try_emplace(at, static_cast<GroupId>(to_.groups.size()));
  if (fresh) {
    const Group& whole = from_.groups.at(group);
    to_.groups.push_back(
        {.kind = whole.kind, .members = {whole.members.at(at.from), whole.members.at(at.to)}});
  }
  return entry->second;
}

GroupId Expansion::relay_group(GroupId group, const Relay& relay, std::uint32_t channel) {
  const auto [entry, fresh] = relay_groups_.try_emplace({group, channel, relay.members},
                                                        static_cast<GroupId>(to_.groups.size()));
  if (fresh) {
    Group made{.kind = from_.groups.at(group).kind, .members = {}};
    for (const std::uint32_t group_rank : relay.members)
      made.members.push_back(from_.groups.at(group).members.at(group_rank));
    to_.groups.push_back(std::move(made));
  }
  return entry->second;
}

std::uint16_t Expansion::slot(RankProgram& rank, GroupId group, std::uint32_t group_rank) {
  const auto [entry, fresh] =
      rank.slot_of.try_emplace(group, static_cast<std::uint16_t>(rank.slots.size()));
  if (!fresh) return entry->second;
  if (rank.slots.size() >= kSlotsMost)
    throw RunError(
        fmt::format("played step by step \"{}\" has more than {} partners (use the fluid model, "
                    "or an algorithm with fewer channels, such as ring)",
                    rank.program.name, kSlotsMost));
  rank.slots.push_back({.group = group, .group_rank = group_rank});
  return entry->second;
}

}  // namespace

Workload expand_collectives(const Workload& workload, const Cluster& cluster,
                            const AlgorithmOf& algorithm_of) {
  return Expansion(workload, cluster, algorithm_of).run();
}

}  // namespace trainyard
