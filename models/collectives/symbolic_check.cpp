#include "models/collectives/symbolic_check.hpp"

#include <fmt/format.h>

#include <cmath>
#include <vector>

namespace trainyard {

namespace {

// Ranks whose contribution a value holds; an empty set is nothing at all.
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

  std::optional<std::string> play() {
    for (std::uint32_t index = 0; index < messages_.size(); ++index)
      if (auto fault = shape_fault(index)) return fault;
    for (std::uint32_t index = 0; index < messages_.size(); ++index)
      if (auto fault = send(index)) return fault;
    return outcome_fault();
  }

 private:
  struct Applied {
    Contributions value;
    std::optional<std::string> fault;
  };

  std::optional<std::string> shape_fault(std::uint32_t index) const;
  std::optional<std::string> send(std::uint32_t index);
  Contributions initial(std::uint32_t role, std::uint32_t piece) const;
  Contributions wanted(std::uint32_t role, std::uint32_t piece) const;
  // `value` after the message arrived on it.
  Applied apply(Contributions value, std::uint32_t message, std::uint32_t piece) const;
  std::optional<std::string> outcome_fault() const;

  bool carries(std::uint32_t message, std::uint32_t piece) const {
    return messages_[message].piece_begin <= piece && piece < messages_[message].piece_end;
  }
  std::uint32_t owner(std::uint32_t piece) const { return piece / (case_.pieces / case_.ranks); }

  SymbolicCase case_;
  std::span<const Message> messages_;
  std::vector<std::vector<Contributions>> values_;  // [message][piece - piece_begin]
};

std::optional<std::string> Player::shape_fault(std::uint32_t index) const {
  const Message& message = messages_[index];
  if (message.from >= case_.ranks || message.to >= case_.ranks || message.from == message.to)
    return fmt::format("message {} goes from {} to {}", index, message.from, message.to);
  if (message.piece_begin >= message.piece_end || message.piece_end > case_.pieces)
    return fmt::format("message {} carries pieces {} to {} of {}", index, message.piece_begin,
                       message.piece_end, case_.pieces);
  const std::uint32_t buffer_pieces =
      case_.op == CollectiveOp::AllToAll ? case_.ranks : case_.pieces;
  const double bytes = case_.bytes / buffer_pieces * (message.piece_end - message.piece_begin);
  if (std::abs(message.bytes - bytes) > 1e-9 * bytes)
    return fmt::format("message {} has {} bytes, its pieces {}", index, message.bytes, bytes);
  for (const std::uint32_t before : message.after) {
    if (before >= index) return fmt::format("message {} waits for the later {}", index, before);
    if (messages_[before].to != message.from)
      return fmt::format("message {} waits for {}, which its sender does not receive", index,
                         before);
    if (messages_[before].step >= message.step)
      return fmt::format("message {} of step {} waits for {} of step {}", index, message.step,
                         before, messages_[before].step);
  }
  return {};
}

Contributions Player::initial(std::uint32_t role, std::uint32_t piece) const {
  Contributions set(case_.ranks, false);
  switch (case_.op) {
    case CollectiveOp::AllReduce:
    case CollectiveOp::ReduceScatter:
    case CollectiveOp::Reduce:
      set[role] = true;
      break;
    case CollectiveOp::AllGather:
      set[role] = owner(piece) == role;
      break;
    case CollectiveOp::Broadcast:
    case CollectiveOp::SendRecv:
      set[role] = role == 0;
      break;
    case CollectiveOp::AllToAll:
      set[role] = piece / case_.ranks == role;
      break;
  }
  return set;
}

// Empty: the operation promises nothing about it.
Contributions Player::wanted(std::uint32_t role, std::uint32_t piece) const {
  Contributions set(case_.ranks, false);
  const Contributions all(case_.ranks, true);
  switch (case_.op) {
    case CollectiveOp::AllReduce:
      return all;
    case CollectiveOp::ReduceScatter:
      return owner(piece) == role ? all : set;
    case CollectiveOp::Reduce:
      return role == 0 ? all : set;
    case CollectiveOp::AllGather:
      set[owner(piece)] = true;
      break;
    case CollectiveOp::Broadcast:
    case CollectiveOp::SendRecv:
      set[0] = true;
      break;
    case CollectiveOp::AllToAll:
      set[piece / case_.ranks] = piece % case_.ranks == role;
      break;
  }
  return set;
}

Player::Applied Player::apply(Contributions value, std::uint32_t message,
                              std::uint32_t piece) const {
  const Contributions& arrived = values_[message][piece - messages_[message].piece_begin];
  if (!messages_[message].reduce) return {arrived, {}};
  for (std::uint32_t rank = 0; rank < case_.ranks; ++rank) {
    if (value[rank] && arrived[rank])
      return {value,
              fmt::format("message {} adds the contribution of rank {} to piece {} a second time",
                          message, rank, piece)};
    value[rank] = value[rank] || arrived[rank];
  }
  return {std::move(value), {}};
}

std::optional<std::string> Player::send(std::uint32_t index) {
  const Message& message = messages_[index];
  for (std::uint32_t piece = message.piece_begin; piece < message.piece_end; ++piece) {
    Contributions value = initial(message.from, piece);
    for (const std::uint32_t before : message.after) {
      if (!carries(before, piece)) continue;
      Applied applied = apply(std::move(value), before, piece);
      if (applied.fault) return applied.fault;
      value = std::move(applied.value);
    }
    if (is_nothing(value))
      return fmt::format("message {} carries piece {}, which rank {} does not hold", index, piece,
                         message.from);
    values_[index].push_back(std::move(value));
  }
  return {};
}

std::optional<std::string> Player::outcome_fault() const {
  std::vector<std::vector<std::uint32_t>> received(case_.ranks);
  for (std::uint32_t index = 0; index < messages_.size(); ++index)
    received[messages_[index].to].push_back(index);
  for (std::uint32_t role = 0; role < case_.ranks; ++role) {
    for (std::uint32_t piece = 0; piece < case_.pieces; ++piece) {
      Contributions value = initial(role, piece);
      std::optional<std::uint32_t> latest;
      for (const std::uint32_t index : received[role]) {
        if (!carries(index, piece)) continue;
        if (latest && !messages_[index].reduce && messages_[index].step <= messages_[*latest].step)
          return fmt::format("message {} replaces piece {} while message {} arrives", index, piece,
                             *latest);
        latest = index;
        Applied applied = apply(std::move(value), index, piece);
        if (applied.fault) return applied.fault;
        value = std::move(applied.value);
      }
      const Contributions want = wanted(role, piece);
      if (!is_nothing(want) && value != want)
        return fmt::format("rank {} ends with the wrong contributions in piece {}", role, piece);
    }
  }
  return {};
}

}  // namespace

std::optional<std::string> symbolic_fault(const SymbolicCase& the_case,
                                          std::span<const Message> messages) {
  return Player(the_case, messages).play();
}

std::optional<std::string> symbolic_fault(const CollectiveAlgorithm& algorithm,
                                          const GroupPlace& place, Bytes bytes) {
  const SymbolicCase the_case{.op = algorithm.op(),
                              .ranks = static_cast<std::uint32_t>(place.gpus.size()),
                              .pieces = algorithm.pieces(place),
                              .bytes = bytes.value()};
  const std::vector<Message> messages = algorithm.messages(place, bytes);
  return symbolic_fault(the_case, messages);
}

}  // namespace trainyard
