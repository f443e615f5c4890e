// all_to_all of routed tokens to experts in which a token crosses to each node at most once, even
// if several of its experts are there. It crosses on the rail of its sender and is then forwarded
// within the node over NVLink (DeepSeek-AI 2412.19437, section 3.2.2). "node_limited" has the pace
// of DeepEP, "hybrid_ep" that of HybridEP. A node is an NVLink domain, such as an NVL72 rack:
// inside it, a token is sent once to each GPU that has experts of it.
//
//    T = alpha + max(S d_n/K (N-1)/N / B_e, bytes that a GPU sends within its node / B_i)
//
// B_i is the rate of NVLink, or less: the rate at which the SMs of the dispatch kernel copy. alpha
// is the measured latency of that kernel (exchange_pace).
//
// S is the size of all K copies of each token, N the number of nodes; the K experts of a token are
// on d_n nodes on average (distinct_units). Forwarding runs concurrently with crossing, token by
// token, so both are one flow per sender. The argument of the name determines d_n:
// "node_limited:K-E-g-G" means K experts per token out of E, which are in G groups of which a token
// reaches g (DeepSeek-V3: 8-256-4-8, d_8 = 3.63). Without an argument every copy crosses
// separately.
//
// On the way back, combine adds the results within the node before they cross; its messages have
// the same sizes. See tests/sim/collectives/node_limited_test.cpp.
#include "sim/collectives/algorithms/node_limited.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/collectives/algorithms/all_to_all.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

constexpr const char* kPaceFolder = "sim/collectives/deepep/data";

ExchangeConstants::Reach read_reach(JsonObject object) {
  object.ignore("benchmark_wait");
  return {.start = object.time("start"), .rate_per_sm = object.rate("rate_per_sm")};
}

ExchangeConstants read_exchange_constants(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  for (const char* note : {"description", "source", "command", "errors"}) root.ignore(note);
  JsonObject sms = root.object("sms");
  static_cast<void>(sms.text("source"));
  JsonObject loss = root.object("compute_loss");
  static_cast<void>(loss.text("source"));
  ExchangeConstants constants{
      .sms = sms.integer("value", {.least = 1, .most = 1000}),
      .in_node = read_reach(root.object("in_node")),
      .across = read_reach(root.object("across")),
      .compute_loss = loss.number("value", {.fallback = {}, .least = 0.0, .most = 0.9})};
  file.finish();
  return constants;
}

}  // namespace

const ExchangeConstants& exchange_constants(const std::string& library) {
  return read_once<ExchangeConstants>(data_file(kPaceFolder, library), read_exchange_constants);
}

const ExchangeConstants* exchange_library_of(std::string_view algorithm) {
  const std::string_view name = algorithm.substr(0, algorithm.find(':'));
  if (name == "node_limited") return &exchange_constants(kDeepEp);
  return name == "hybrid_ep" ? &exchange_constants(kHybridEp) : nullptr;
}

ExchangePace exchange_pace(const ExchangeConstants& constants, std::int64_t nodes) {
  const auto& reach = nodes > 1 ? constants.across : constants.in_node;
  return {.start = reach.start, .rate = reach.rate_per_sm * static_cast<double>(constants.sms)};
}

namespace {

// The probability that none of `picks` distinct elements of a set of `pool` belongs to a subset of
// `part` elements (hypergeometric distribution).
double none_of(double pool, double part, std::int64_t picks) {
  double chance = 1.0;
  for (std::int64_t i = 0; i < picks; ++i) {
    const double left = pool - part - static_cast<double>(i);
    if (left <= 0.0) return 0.0;
    chance *= left / (pool - static_cast<double>(i));
  }
  return chance;
}

double choose(std::int64_t n, std::int64_t k) {
  if (k < 0 || k > n) return 0.0;
  double ways = 1.0;
  for (std::int64_t i = 0; i < k; ++i)
    ways *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  return ways;
}

}  // namespace

// Expectation over the routing of a token. By symmetry it is the number of units times the
// probability that a unit holds one of the K experts.
double distinct_units(const TokenChoice& c, std::int64_t units) {
  TokenChoice choice = c;
  if (c.groups % units != 0 && units % c.groups != 0) choice.groups = choice.reached = 1;
  const double group = static_cast<double>(c.experts) / static_cast<double>(choice.groups);
  const double pool = group * static_cast<double>(choice.reached);
  // Units within groups: only the units of reached groups can be hit, and all with equal
  // probability.
  if (units >= choice.groups) {
    const double unit = static_cast<double>(c.experts) / static_cast<double>(units);
    const std::int64_t units_of_group = units / choice.groups;
    const auto open = static_cast<double>(choice.reached * units_of_group);
    return open * (1.0 - none_of(pool, unit, c.picks));
  }
  // Units of several groups: j of the reached groups belong to the unit with a hypergeometric
  // probability; then its experts are those of j groups in the pool.
  const std::int64_t within = choice.groups / units;  // groups of one unit
  double hit = 0.0;
  for (std::int64_t j = 0; j <= within; ++j) {
    const double chance = choose(within, j) * choose(choice.groups - within, choice.reached - j) /
                          choose(choice.groups, choice.reached);
    if (chance > 0.0)
      hit += chance * (1.0 - none_of(pool, group * static_cast<double>(j), c.picks));
  }
  return static_cast<double>(units) * hit;
}

namespace {

// Builder for the messages: crossing on the rail of the sender, then forwarding within the node.
class Crossing {
 public:
  Crossing(const PlacedGroup& placed, Bytes bytes, const std::optional<TokenChoice>& choice)
      : placement_(placement_of(placed)),
        blocks_(blocks_of(placed, bytes)),
        arrived_(blocks_.ranks),
        sent_(blocks_.ranks) {
    for (std::uint32_t from = 0; from < blocks_.ranks; ++from)
      for (std::uint32_t to = 0; to < blocks_.ranks; ++to) sent_[from] += blocks_.between(from, to);
    if (!choice) return;
    const auto picks = static_cast<double>(choice->picks);
    const auto nodes = static_cast<std::int64_t>(placement_.nodes.size());
    crossing_ = distinct_units(*choice, nodes) / picks;
    forwarding_ = distinct_units(*choice, blocks_.ranks) / picks;
    once_ = 1.0 / picks;
  }

  std::vector<Message> messages() && {
    const auto nodes = static_cast<std::uint32_t>(placement_.nodes.size());
    const auto members = static_cast<std::uint32_t>(placement_.smallest());
    for (std::uint32_t distance = 1; distance < nodes; ++distance)
      for (std::uint32_t from = 0; from < nodes; ++from)
        for (std::uint32_t member = 0; member < members; ++member)
          cross(member, from, (from + distance) % nodes, distance - 1);
    for (std::uint32_t distance = 1; distance < members; ++distance)
      for (std::uint32_t node = 0; node < nodes; ++node)
        for (std::uint32_t member = 0; member < members; ++member)
          forward(node, member, (member + distance) % members, nodes - 1 + distance - 1);
    return std::move(messages_);
  }

 private:
  [[nodiscard]] std::uint32_t group_rank(std::uint32_t node, std::uint32_t member) const {
    return placement_.nodes[node][member];
  }

  // Sends all blocks of one member for the GPUs of another node to the member there with the same
  // local index.
  void cross(std::uint32_t member, std::uint32_t from, std::uint32_t to, std::uint32_t channel) {
    const std::uint32_t sender = group_rank(from, member);
    Message message = carrying(
        blocks_, {.from = sender, .to = group_rank(to, member), .step = 0, .channel = channel},
        std::span(&sender, 1), placement_.nodes[to]);
    // A token crosses once even if several of its experts are on the node. The second bound holds
    // for uneven blocks: a sender has sent_ / K bytes of distinct tokens.
    message.bytes = std::min(message.bytes * crossing_, sent_[sender] * once_);
    if (message.scattered.empty()) return;
    arrived_[message.to].push_back(static_cast<std::uint32_t>(messages_.size()));
    messages_.push_back(std::move(message));
  }

  // Forwards to a GPU of the node the blocks that arrived for it on this rail, and this member's
  // own block for it.
  void forward(std::uint32_t node, std::uint32_t member, std::uint32_t to, std::uint32_t channel) {
    std::vector<std::uint32_t> rail;
    for (const auto& group_ranks : placement_.nodes) rail.push_back(group_ranks[member]);
    const std::uint32_t receiver = group_rank(node, to);
    Message message = carrying(
        blocks_, {.from = group_rank(node, member), .to = receiver, .step = 1, .channel = channel},
        rail, std::span(&receiver, 1));
    message.bytes *= forwarding_;
    if (message.scattered.empty()) return;
    message.after = arrived_[message.from];
    messages_.push_back(std::move(message));
  }

  Placement placement_;
  Blocks blocks_;
  double crossing_ = 1.0;    // fraction of a block's bytes that crosses
  double forwarding_ = 1.0;  // fraction of a block's bytes that is forwarded
  double once_ = 1.0;        // fraction of all bytes if each token is sent once
  std::vector<std::vector<std::uint32_t>> arrived_;  // by group rank: crossing messages to it
  std::vector<double> sent_;                         // by group rank: all its bytes
  std::vector<Message> messages_;
};

// The bytes that each sender copies within its node, by ascending sender, without the ranks that
// send nothing.
std::vector<double> forwarded_bytes_of(const std::vector<Message>& messages) {
  std::map<std::uint32_t, double> bytes;
  for (const Message& message : messages)
    bytes[message.from] += message.step == 1 ? message.bytes : 0.0;
  std::vector<double> of_senders;
  for (const auto& [sender, sum] : bytes) of_senders.push_back(sum);
  return of_senders;
}

// The phase has one multi-link flow per sender. Limits the rate of each flow so that it does not
// end before the SMs of the sender have copied its bytes: the rate of the most loaded link is
// scaled to the copied bytes.
void limit_rates(Phase& phase, const std::vector<double>& handed_on, const ExchangePace& pace) {
  TY_CHECK(phase.flows.size() == handed_on.size() || phase.flows.empty(), phase.flows.size(),
           handed_on.size());
  phase.latency = std::max(phase.latency, pace.start);
  for (std::size_t i = 0; i < phase.flows.size(); ++i) {
    MultiLinkFlow& flow = phase.flows[i];
    if (handed_on[i] <= 0.0) continue;
    const double most = std::ranges::max(flow.loads, {}, &LinkLoad::bytes).bytes;
    flow.rate_cap_bytes_per_s =
        std::min(flow.rate_cap_bytes_per_s, most / handed_on[i] * pace.rate.value());
  }
}

class NodeLimitedAllToAll final : public CollectiveAlgorithm {
 public:
  // `library` names the file with the pace of its kernels.
  NodeLimitedAllToAll(std::string library, std::string name, std::optional<TokenChoice> choice)
      : library_(std::move(library)), name_(std::move(name)), choice_(choice) {}
  std::string_view name() const override { return name_; }
  CollectiveOp op() const override { return CollectiveOp::AllToAll; }
  std::string_view summary() const override {
    return library_ == kHybridEp ? "as node_limited, at the pace of HybridEP's kernels"
                                 : "across nodes once a token on its rail, forwarded inside "
                                   "(DeepEP); :K-E-g-G says how tokens choose";
  }
  std::uint32_t pieces(const PlacedGroup& placed) const override {
    return ranks_of(placed) * ranks_of(placed);
  }
  FluidBound fluid_bound(const PlacedGroup& /*placed*/) const override {
    return {
        .relative = 1.0,
        .reason = "tokens are forwarded as they arrive; a message is forwarded when it is whole"};
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    if (auto reason = placement_of(placed).uneven("node_limited")) return reason;
    return too_many_to_all_send_to_all(placed);
  }
  // Forwarding runs concurrently with crossing, token by token, so all messages form one phase.
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    std::vector<Message> together = messages(placed, bytes);
    const std::vector<double> handed_on = forwarded_bytes_of(together);
    for (Message& message : together) message.step = 0;
    std::vector<Phase> phases = phases_of_all_to_all(placed, together, FlowOf::Sender);
    const auto nodes = static_cast<std::int64_t>(placement_of(placed).nodes.size());
    limit_rates(phases.front(), handed_on, exchange_pace(exchange_constants(library_), nodes));
    return phases;
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return Crossing(placed, bytes, choice_).messages();
  }
  std::unique_ptr<CollectiveAlgorithm> with_argument(std::string_view argument) const override;

 private:
  std::string library_;
  std::string name_;
  std::optional<TokenChoice> choice_;
};

std::unique_ptr<CollectiveAlgorithm> NodeLimitedAllToAll::with_argument(
    std::string_view argument) const {
  TokenChoice choice;
  const char* at = argument.data();
  const char* const end = at + argument.size();
  bool sound = true;
  for (std::int64_t* number : {&choice.picks, &choice.experts, &choice.reached, &choice.groups}) {
    const auto [stop, fault] = std::from_chars(at, end, *number);
    const bool last = number == &choice.groups;
    sound = sound && fault == std::errc() && *number > 0 && (last || stop != end);
    at = !last && stop != end && *stop == '-' ? stop + 1 : stop;
  }
  sound = sound && at == end && choice.reached <= choice.groups &&
          choice.experts % choice.groups == 0 &&
          choice.picks <= choice.experts / choice.groups * choice.reached;
  if (!sound)
    throw InputError({"", "",
                      fmt::format("\"{}:{}\" does not say how tokens choose", name_, argument),
                      fmt::format("experts a token, experts, groups a token reaches, groups: "
                                  "\"{}:8-256-4-8\"",
                                  name_)});
  return std::make_unique<NodeLimitedAllToAll>(library_, fmt::format("{}:{}", name_, argument),
                                               choice);
}

}  // namespace

const CollectiveAlgorithm& node_limited_all_to_all() {
  static const NodeLimitedAllToAll algorithm(kDeepEp, "node_limited", {});
  return algorithm;
}
const CollectiveAlgorithm& hybrid_ep_all_to_all() {
  static const NodeLimitedAllToAll algorithm(kHybridEp, "hybrid_ep", {});
  return algorithm;
}

}  // namespace trainyard
