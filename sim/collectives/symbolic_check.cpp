#include "sim/collectives/symbolic_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/collectives/messages.hpp"

namespace trainyard {

namespace {

// The set of ranks whose contributions a value contains. The empty set means that there is no
// value.
using Contributions = std::vector<bool>;

bool is_nothing(const Contributions& set) {
  for (const bool in : set)
    if (in) return false;
  return true;
}

class Player {
 public:
  Player(const SymbolicCase& the_case, std::span<const Message> messages)
      : case_(the_case), messages_(messages), values_(messages.size()) {}

  std::optional<SymbolicFault> play() {
    for (std::uint32_t index = 0; index < messages_.size(); ++index)
      if (auto fault = shape_fault(index)) return SymbolicFault{*fault, index};
    // Dependencies are earlier in the list, so one pass in the order of the list computes all
    // values.
    for (std::uint32_t index = 0; index < messages_.size(); ++index)
      if (auto fault = send(index)) return SymbolicFault{*fault, index};
    return outcome_fault();
  }

 private:
  struct Applied {
    Contributions value;
    std::optional<std::string> fault;
  };
  // The contributions that a group rank holds in a piece at the end, or a fault if they are not
  // determined.
  struct Outcome {
    Contributions value;
    std::optional<SymbolicFault> fault;
  };

  std::optional<std::string> shape_fault(std::uint32_t index) const;
  std::optional<std::string> send(std::uint32_t index);
  Contributions initial(std::uint32_t group_rank, std::uint32_t piece) const;
  // True if the operation requires the group rank to hold the piece at the end.
  bool promises(std::uint32_t group_rank, std::uint32_t piece) const;
  Contributions wanted(std::uint32_t group_rank, std::uint32_t piece) const;
  // `value` after the message has arrived.
  Applied apply(Contributions value, std::uint32_t message, std::uint32_t piece) const;
  Outcome outcome(std::uint32_t group_rank, std::uint32_t piece,
                  std::span<const std::uint32_t> received) const;
  std::optional<SymbolicFault> outcome_fault() const;
  std::optional<SymbolicFault> outcome_fault(std::uint32_t group_rank, std::uint32_t piece,
                                             std::span<const std::uint32_t> received) const;

  // True for a member of the collective, false for a dedicated server.
  [[nodiscard]] bool is_member(std::uint32_t group_rank) const {
    return group_rank + case_.servers < case_.ranks;
  }
  // The index of the piece among the pieces of the message, if the message carries it.
  std::optional<std::uint32_t> index_in(std::uint32_t message, std::uint32_t piece) const;
  bool carries(std::uint32_t message, std::uint32_t piece) const {
    return index_in(message, piece).has_value();
  }
  std::string name(std::uint32_t message) const {
    return message < case_.names.size() ? case_.names[message] : fmt::format("message {}", message);
  }
  // The rank that owns a piece: the r-th n-th of the pieces belongs to rank r
  // (CollectiveAlgorithm::pieces). For an all_to_all this is the sender.
  std::uint32_t owner(std::uint32_t piece) const { return piece / (case_.pieces / case_.ranks); }
  // The rank to which a piece of an all_to_all is sent.
  std::uint32_t destination(std::uint32_t piece) const {
    const std::uint32_t of_sender = case_.pieces / case_.ranks;
    return piece % of_sender / (of_sender / case_.ranks);
  }

  SymbolicCase case_;
  std::span<const Message> messages_;
  std::vector<std::vector<Contributions>> values_;  // [message][index among its pieces]
};

std::optional<std::uint32_t> Player::index_in(std::uint32_t message, std::uint32_t piece) const {
  const Message& it = messages_[message];
  if (it.scattered.empty()) {
    if (piece < it.piece_begin || piece >= it.piece_end) return {};
    return piece - it.piece_begin;
  }
  const auto found = std::ranges::lower_bound(it.scattered, piece);
  if (found == it.scattered.end() || *found != piece) return {};
  return static_cast<std::uint32_t>(found - it.scattered.begin());
}

// Checks what does not need values: endpoints, pieces, bytes, and the order and receiver of the
// dependencies.
std::optional<std::string> Player::shape_fault(std::uint32_t index) const {
  const Message& message = messages_[index];
  const std::uint32_t group_ranks = case_.ranks + case_.switches;
  if (message.from >= group_ranks || message.to >= group_ranks || message.from == message.to)
    return fmt::format("{} goes from {} to {}", name(index), message.from, message.to);
  if (message.scattered.empty() && message.piece_begin >= message.piece_end)
    return fmt::format("{} carries no piece", name(index));
  const std::uint32_t last = message.piece(message.piece_count() - 1);
  if (last >= case_.pieces)
    return fmt::format("{} carries piece {} of {}", name(index), last, case_.pieces);
  const double bytes =
      bytes_of(message, {.op = case_.op, .ranks = case_.ranks, .pieces = case_.pieces}, case_.bytes,
               case_.matrix);
  if (std::abs(message.bytes - bytes) > 1e-9 * bytes)
    return fmt::format("{} has {} bytes, its pieces {}", name(index), message.bytes, bytes);
  for (const std::uint32_t before : message.after) {
    if (before >= index) return fmt::format("{} waits for the later {}", name(index), name(before));
    if (messages_[before].to != message.from)
      return fmt::format("{} waits for {}, which its sender does not receive", name(index),
                         name(before));
    if (messages_[before].step >= message.step)
      return fmt::format("{} of step {} waits for {} of step {}", name(index), message.step,
                         name(before), messages_[before].step);
  }
  return {};
}

// The value before the collective: the rank's own contribution (reductions), its own pieces
// (all_gather, all_to_all), or everything at the root (broadcast, send_recv).
Contributions Player::initial(std::uint32_t group_rank, std::uint32_t piece) const {
  Contributions set(case_.ranks, false);
  if (!is_member(group_rank)) return set;
  switch (case_.op) {
    case CollectiveOp::AllReduce:
    case CollectiveOp::ReduceScatter:
    case CollectiveOp::Reduce:
      set[group_rank] = true;
      break;
    case CollectiveOp::AllGather:
      set[group_rank] = owner(piece) == group_rank;
      break;
    case CollectiveOp::Broadcast:
    case CollectiveOp::SendRecv:
    case CollectiveOp::HostCopy:
      set[group_rank] = group_rank == 0;
      break;
    case CollectiveOp::AllToAll:
      set[group_rank] = owner(piece) == group_rank;
      break;
  }
  return set;
}

bool Player::promises(std::uint32_t group_rank, std::uint32_t piece) const {
  if (!is_member(group_rank)) return false;
  if (case_.op == CollectiveOp::ReduceScatter) return owner(piece) == group_rank;
  if (case_.op == CollectiveOp::AllToAll) return destination(piece) == group_rank;
  return case_.op != CollectiveOp::Reduce || group_rank == 0;
}

// The contributions that the operation requires; empty if it requires none.
Contributions Player::wanted(std::uint32_t group_rank, std::uint32_t piece) const {
  Contributions set(case_.ranks, false);
  if (!is_member(group_rank)) return set;
  Contributions all(case_.ranks, true);
  for (std::uint32_t server = 0; server < case_.servers; ++server)
    all[case_.ranks - 1 - server] = false;
  switch (case_.op) {
    case CollectiveOp::AllReduce:
      return all;
    case CollectiveOp::ReduceScatter:
      return owner(piece) == group_rank ? all : set;
    case CollectiveOp::Reduce:
      return group_rank == 0 ? all : set;
    case CollectiveOp::AllGather:
      set[owner(piece)] = true;
      break;
    case CollectiveOp::Broadcast:
    case CollectiveOp::SendRecv:
    case CollectiveOp::HostCopy:
      set[0] = true;
      break;
    case CollectiveOp::AllToAll:
      set[owner(piece)] =
          destination(piece) == group_rank &&
          Blocks{.ranks = case_.ranks, .bytes = case_.bytes, .matrix = case_.matrix}.sends(
              owner(piece), group_rank);
      break;
  }
  return set;
}

// A value replaces the old one, or is added to it. A contribution that both values contain would be
// counted twice, which is a fault.
Player::Applied Player::apply(Contributions value, std::uint32_t message,
                              std::uint32_t piece) const {
  const Contributions& arrived = values_[message][index_in(message, piece).value()];
  if (!messages_[message].reduce) return {arrived, {}};
  for (std::uint32_t rank = 0; rank < case_.ranks; ++rank) {
    if (value[rank] && arrived[rank])
      return {value, fmt::format("{} adds the contribution of rank {} to piece {} a second time",
                                 name(message), rank, piece)};
    value[rank] = value[rank] || arrived[rank];
  }
  return {std::move(value), {}};
}

// Computes the value that a message carries, for each piece: the initial value of the sender, with
// the messages of `after` that carry the piece applied in order. Dependencies are earlier messages,
// so their values are known.
std::optional<std::string> Player::send(std::uint32_t index) {
  const Message& message = messages_[index];
  for (std::uint32_t i = 0; i < message.piece_count(); ++i) {
    const std::uint32_t piece = message.piece(i);
    Contributions value = initial(message.from, piece);
    for (const std::uint32_t before : message.after) {
      if (!carries(before, piece)) continue;
      Applied applied = apply(std::move(value), before, piece);
      if (applied.fault) return applied.fault;
      value = std::move(applied.value);
    }
    if (is_nothing(value))
      return fmt::format("{} carries piece {}, which rank {} does not hold", name(index), piece,
                         message.from);
    values_[index].push_back(std::move(value));
  }
  return {};
}

Player::Outcome Player::outcome(std::uint32_t group_rank, std::uint32_t piece,
                                std::span<const std::uint32_t> received) const {
  Contributions value = initial(group_rank, piece);
  std::optional<std::uint32_t> latest;
  // A message that replaces a value must be in a later step than the one before it; otherwise the
  // result depends on the order of arrival.
  for (const std::uint32_t index : received) {
    if (latest && !messages_[index].reduce && messages_[index].step <= messages_[*latest].step)
      return {value, SymbolicFault{fmt::format("{} replaces piece {} while {} arrives", name(index),
                                               piece, name(*latest)),
                                   index}};
    latest = index;
    Applied applied = apply(std::move(value), index, piece);
    if (applied.fault) return {{}, SymbolicFault{*applied.fault, index}};
    value = std::move(applied.value);
  }
  return {std::move(value), {}};
}

// "without what comes from ranks 1, 2", "with what is not wanted from rank 3", or both.
std::string difference(const Contributions& value, const Contributions& want) {
  std::vector<std::uint32_t> missing;
  std::vector<std::uint32_t> unwanted;
  for (std::uint32_t rank = 0; rank < want.size(); ++rank) {
    if (want[rank] && !value[rank]) missing.push_back(rank);
    if (value[rank] && !want[rank]) unwanted.push_back(rank);
  }
  const auto ranks = [](const std::vector<std::uint32_t>& list) {
    return fmt::format("{} {}", list.size() == 1 ? "rank" : "ranks", fmt::join(list, ", "));
  };
  std::string text;
  if (!missing.empty()) text += " without what comes from " + ranks(missing);
  if (!unwanted.empty())
    text += (text.empty() ? " with what " : " and with what ") +
            fmt::format("is not wanted from {}", ranks(unwanted));
  return text;
}

std::optional<SymbolicFault> Player::outcome_fault(std::uint32_t group_rank, std::uint32_t piece,
                                                   std::span<const std::uint32_t> received) const {
  const Outcome ends = outcome(group_rank, piece, received);
  if (ends.fault) return ends.fault;
  const Contributions want = wanted(group_rank, piece);
  // A rank may end with any value in a piece that it is not due. Example: the partial sums that
  // pass through a rank in a ring reduce_scatter.
  if (is_nothing(want) || ends.value == want) return {};
  return SymbolicFault{fmt::format("rank {} ends with the wrong contributions in piece {}:{}",
                                   group_rank, piece, difference(ends.value, want)),
                       {}};
}

std::optional<SymbolicFault> Player::outcome_fault() const {
  // By group rank, the pairs (received piece, message), sorted by piece and then by message. One
  // pass over them visits the messages of each piece, which is faster than a search per rank and
  // piece.
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> received(case_.ranks);
  for (std::uint32_t index = 0; index < messages_.size(); ++index) {
    const Message& message = messages_[index];
    if (message.to >= case_.ranks) continue;
    for (std::uint32_t i = 0; i < message.piece_count(); ++i)
      received[message.to].emplace_back(message.piece(i), index);
  }
  std::vector<std::uint32_t> of_piece;
  for (std::uint32_t group_rank = 0; group_rank < case_.ranks; ++group_rank) {
    std::ranges::sort(received[group_rank]);
    auto next = received[group_rank].begin();
    for (std::uint32_t piece = 0; piece < case_.pieces; ++piece) {
      of_piece.clear();
      for (; next != received[group_rank].end() && next->first == piece; ++next)
        of_piece.push_back(next->second);
      if (of_piece.empty() && !promises(group_rank, piece)) continue;
      if (auto fault = outcome_fault(group_rank, piece, of_piece)) return fault;
    }
  }
  return {};
}

}  // namespace

std::optional<SymbolicFault> find_fault(const SymbolicCase& the_case,
                                        std::span<const Message> messages) {
  return Player(the_case, messages).play();
}

std::optional<std::string> symbolic_fault(const SymbolicCase& the_case,
                                          std::span<const Message> messages) {
  const auto fault = find_fault(the_case, messages);
  return fault ? std::optional(fault->problem) : std::nullopt;
}

std::optional<std::string> symbolic_fault(const CollectiveAlgorithm& algorithm,
                                          const PlacedGroup& placed, Bytes bytes) {
  const SymbolicCase the_case{
      .op = algorithm.op(),
      .ranks = ranks_of(placed),
      .pieces = algorithm.pieces(placed),
      .bytes = bytes.value(),
      .switches = static_cast<std::uint32_t>(algorithm.switches(placed).size()),
      .servers = algorithm.servers(placed),
      .matrix = placed.matrix};
  const std::vector<Message> messages = algorithm.messages(placed, bytes);
  return symbolic_fault(the_case, messages);
}

}  // namespace trainyard
