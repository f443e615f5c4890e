// Reader for a list of sends (declared in custom_algorithm.hpp; the format is in
// algorithm_format.md).
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "sim/base/json_reader.hpp"
#include "sim/collectives/custom/custom_algorithm.hpp"
#include "sim/collectives/messages.hpp"
#include "sim/collectives/symbolic_check.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kRanksMost = 1024;
constexpr std::int64_t kPiecesMost = 1 << 20;
// For each rank and piece the check stores the messages that wrote it. This limit corresponds to
// about one gigabyte.
constexpr std::int64_t kHoldingsMost = 1 << 25;

// One element of "sends" in the file.
struct Send {
  std::uint32_t number = 0;  // its index in the file
  Message message = {};      // its pieces are always in `scattered`
  bool has_step = false;
  bool has_channel = false;
};

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const CollectiveOp op :
       {CollectiveOp::AllReduce, CollectiveOp::AllGather, CollectiveOp::ReduceScatter,
        CollectiveOp::Broadcast, CollectiveOp::Reduce, CollectiveOp::AllToAll})
    names.emplace_back(to_string(op));
  return names;
}

CollectiveOp operation_of(const std::string& name) {
  for (auto op = CollectiveOp::AllReduce; op != CollectiveOp::SendRecv;
       op = static_cast<CollectiveOp>(static_cast<int>(op) + 1))
    if (to_string(op) == name) return op;
  return CollectiveOp::AllReduce;  // choice() has reported an unknown word
}

// Computes the earliest step of each send if the file gives no steps. A send must be after all
// earlier sends that brought its sender the pieces that it carries. If it overwrites a piece, it
// must be after the steps in which the old content is written or read.
class EarliestSteps {
 public:
  explicit EarliestSteps(std::uint32_t pieces) : pieces_(pieces) {}

  std::uint32_t index_of(const Message& message) {
    std::uint32_t step = 0;
    for (const std::uint32_t piece : message.scattered) {
      const State& there = state(message.to, piece);
      // An addition may share the step in which the old content is read, because messages of one
      // step do not see each other. A replacement must come later.
      step = std::max({step, state(message.from, piece).written, there.replaced, there.read});
      if (!message.reduce) step = std::max({step, there.written, there.read + there.is_read});
    }
    for (const std::uint32_t piece : message.scattered) {
      State& here = state(message.from, piece);
      here.read = std::max(here.read, step);
      here.is_read = 1;
      State& there = state(message.to, piece);
      there.written = std::max(there.written, step + 1);
      if (!message.reduce) there.replaced = step + 1;
    }
    return step;
  }

 private:
  struct State {
    std::uint32_t written = 0;   // first step after all messages that wrote the piece so far
    std::uint32_t replaced = 0;  // first step after the last message that replaced it
    std::uint32_t read = 0;      // last step in which it was sent
    std::uint32_t is_read = 0;   // 1 if it was sent, else 0
  };
  State& state(std::uint32_t group_rank, std::uint32_t piece) {
    return known_[std::uint64_t{group_rank} * pieces_ + piece];
  }

  std::uint32_t pieces_;
  std::unordered_map<std::uint64_t, State> known_;  // only pieces that some send uses
};

class SendListReader {
 public:
  explicit SendListReader(JsonFile& file) : file_(file), root_(file.root()) {}

  SendPlan read() {
    read_heading();
    std::uint32_t number = 0;
    for (JsonObject& object : root_.objects("sends")) sends_.push_back(read_send(object, number++));
    if (sends_.empty()) root_.report("sends", "there are no sends");
    file_.finish();
    set_steps();
    set_channels();
    return proved();
  }

 private:
  void read_heading() {
    plan_.name = file_.name();
    plan_.op = operation_of(root_.choice("op", operation_names()));
    plan_.summary = root_.text("description", "sends listed in a file");
    // A value out of range has been reported. Clamping it keeps the following computations valid.
    plan_.ranks = static_cast<std::uint32_t>(
        std::max<std::int64_t>(2, root_.integer("ranks", {.least = 2, .most = kRanksMost})));
    const std::uint32_t n = plan_.ranks;
    const std::uint32_t fallback = plan_.op == CollectiveOp::AllToAll ? n * n : n;
    plan_.pieces = static_cast<std::uint32_t>(std::max<std::int64_t>(
        1, root_.integer("pieces", {.fallback = fallback, .least = 1, .most = kPiecesMost})));
    if (owned() && plan_.pieces % fallback != 0) {
      root_.report("pieces", fmt::format("{} is no multiple of {}", plan_.pieces, fallback),
                   plan_.op == CollectiveOp::AllToAll
                       ? "all_to_all has ranks * ranks blocks, of the same number of pieces"
                       : "every rank owns the same number of pieces");
      plan_.pieces = fallback;
    }
    check_holdings();
  }

  void check_holdings() {
    const std::int64_t holdings = std::int64_t{plan_.ranks} * plan_.pieces;
    if (holdings <= kHoldingsMost) return;
    root_.report("pieces",
                 fmt::format("{} pieces on each of {} ranks are {}, more than the {} that can be "
                             "followed",
                             plan_.pieces, plan_.ranks, holdings, kHoldingsMost),
                 "cut the buffer into fewer pieces");
  }

  // Whether the operation assigns an equal part of the pieces to each rank.
  [[nodiscard]] bool owned() const {
    return plan_.op == CollectiveOp::AllGather || plan_.op == CollectiveOp::ReduceScatter ||
           plan_.op == CollectiveOp::AllToAll;
  }

  Send read_send(JsonObject& object, std::uint32_t number) {
    Send send{.number = number};
    Message& message = send.message;
    message.from = rank(object, "from");
    message.to = rank(object, "to");
    if (message.from == message.to)
      object.report("to", fmt::format("rank {} cannot send to itself", message.to));
    message.reduce = object.boolean("reduce", false);
    send.has_step = object.has("step");
    message.step = small(object, "step");
    send.has_channel = object.has("channel");
    message.channel = small(object, "channel");
    message.scattered = read_pieces(object);
    return send;
  }

  std::uint32_t rank(JsonObject& object, std::string_view key) const {
    const std::int64_t most = plan_.ranks - 1;
    return static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(object.integer(key, {.least = 0, .most = most}), 0, most));
  }

  static std::uint32_t small(JsonObject& object, std::string_view key) {
    constexpr std::int64_t kMost = 1'000'000;
    return static_cast<std::uint32_t>(
        object.integer(key, {.fallback = 0, .least = 0, .most = kMost}));
  }

  std::vector<std::uint32_t> read_pieces(JsonObject& object) const {
    std::vector<std::uint32_t> pieces;
    const Json& list = object.raw("pieces");
    if (!list.is_array() || list.empty()) {
      object.report("pieces", fmt::format("must be an array of piece numbers, not {}", shown(list)),
                    fmt::format("pieces are numbered 0 to {}", plan_.pieces - 1));
      return {0};
    }
    for (const Json& piece : list) {
      if (piece.is_number_unsigned() && piece.get<std::uint64_t>() < plan_.pieces) {
        pieces.push_back(piece.get<std::uint32_t>());
      } else {
        object.report("pieces", fmt::format("{} is not a piece", shown(piece)),
                      fmt::format("pieces are numbered 0 to {}", plan_.pieces - 1));
      }
    }
    std::ranges::sort(pieces);
    if (std::ranges::adjacent_find(pieces) != pieces.end())
      object.report("pieces", "a piece is listed twice");
    return pieces.empty() ? std::vector<std::uint32_t>{0} : pieces;
  }

  // Either all sends give their step, or none does.
  void set_steps() {
    const auto odd = std::ranges::find_if(
        sends_, [&](const Send& send) { return send.has_step != sends_[0].has_step; });
    if (odd != sends_.end())
      throw InputError({plan_.name, pointer(*odd),
                        sends_[0].has_step ? "has no step, unlike the first send"
                                           : "has a step, unlike the first send",
                        "give every send a step, or none"});
    if (!sends_[0].has_step) {
      EarliestSteps earliest(plan_.pieces);
      for (Send& send : sends_) send.message.step = earliest.index_of(send.message);
    }
    std::ranges::stable_sort(sends_, {}, [](const Send& send) { return send.message.step; });
  }

  // Sends of one step without a channel run concurrently.
  void set_channels() {
    for (auto begin = sends_.begin(); begin != sends_.end();) {
      const auto end = std::find_if(begin, sends_.end(), [&](const Send& send) {
        return send.message.step != begin->message.step;
      });
      FreeChannels free;
      for (auto send = begin; send != end; ++send)
        if (const Message& m = send->message; send->has_channel) free.mark(m.from, m.to, m.channel);
      for (auto send = begin; send != end; ++send)
        if (Message& m = send->message; !send->has_channel) m.channel = free.take(m.from, m.to);
      begin = end;
    }
  }

  // Checks the plan symbolically, with one byte per piece.
  SendPlan proved() {
    MessageList list({.ranks = plan_.ranks, .pieces = plan_.pieces, .piece_bytes = 1.0});
    std::vector<std::string> names;
    for (Send& send : sends_) {
      names.push_back(fmt::format("send {}", send.number));
      list.send(std::move(send.message));
    }
    plan_.messages = std::move(list).take();
    const Cut cut{.op = plan_.op, .ranks = plan_.ranks, .pieces = plan_.pieces};
    const double bytes =
        plan_.op == CollectiveOp::AllToAll ? plan_.pieces / plan_.ranks : plan_.pieces;
    for (Message& message : plan_.messages) message.bytes = bytes_of(message, cut, bytes, {});
    const SymbolicCase claim{.op = plan_.op,
                             .ranks = plan_.ranks,
                             .pieces = plan_.pieces,
                             .bytes = bytes,
                             .names = names};
    if (const auto fault = find_fault(claim, plan_.messages))
      throw InputError({plan_.name, fault->message ? pointer(sends_[*fault->message]) : "/sends",
                        fmt::format("this is no {}: {}", to_string(plan_.op), fault->problem),
                        "a send carries what its rank started with and what earlier steps "
                        "brought it"});
    return std::move(plan_);
  }

  static std::string pointer(const Send& send) { return fmt::format("/sends/{}", send.number); }

  JsonFile& file_;
  JsonObject root_;
  SendPlan plan_;
  std::vector<Send> sends_;
};

SendPlan read_from(JsonFile file) { return SendListReader(file).read(); }

}  // namespace

SendPlan read_send_list(const std::filesystem::path& file) {
  return read_from(JsonFile::read(file));
}

SendPlan parse_send_list(const std::string& name, std::string_view text) {
  return read_from(JsonFile::parse(name, text));
}

}  // namespace trainyard
