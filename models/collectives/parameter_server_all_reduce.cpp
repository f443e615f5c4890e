// all_reduce by parameter servers: k members hold a k-th of the parameters each, everyone pushes
// its gradients to them and pulls the sums back.
//
//   T = 2 (alpha + (n-1) S/(k B))     the ports of the servers are the bottleneck
//
// "parameter_server" has one server, "parameter_server:4" four, on the first members of the group.
// Servers on machines of their own, and workers that do not wait for each other, are no collective
// of a group: parameter_server_traffic.hpp. Source: M. Li et al., "Scaling Distributed Machine
// Learning with the Parameter Server", OSDI 2014. n = 8, k = 4, S = 2^30, B = 100 GB/s, alpha =
// 5 us: 37 590.963840 us (tests/models/collectives/parameter_server_test.cpp).
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "models/collectives/exchange.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

class ParameterServer final : public CollectiveAlgorithm {
 public:
  explicit ParameterServer(std::uint32_t servers, std::string name)
      : servers_(servers), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  std::string_view summary() const override {
    return "gradients pushed to k members and pulled back (:k, one if left out)";
  }
  std::uint32_t pieces(const GroupPlace& /*place*/) const override { return servers_; }
  std::optional<std::string> refusal(const GroupPlace& place) const override {
    if (servers_ <= place.gpus.size()) return {};
    return fmt::format("{} servers need as many ranks, here are {}", servers_, place.gpus.size());
  }
  std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const override {
    return phases_by_step(place, messages(place, bytes), ChainOf::Sender);
  }
  std::vector<Message> messages(const GroupPlace& place, Bytes bytes) const override;
  std::unique_ptr<CollectiveAlgorithm> with_argument(std::string_view argument) const override;

 private:
  std::uint32_t servers_;
  std::string name_;
};

std::vector<Message> ParameterServer::messages(const GroupPlace& place, Bytes bytes) const {
  const std::uint32_t n = ranks_of(place);
  MessageList list({.ranks = n, .pieces = servers_, .piece_bytes = bytes.value() / servers_});
  for (const bool push : {true, false}) {
    for (std::uint32_t distance = 1; distance < n; ++distance) {
      for (std::uint32_t server = 0; server < servers_; ++server) {
        const std::uint32_t other = (server + distance) % n;
        list.send({.from = push ? other : server,
                   .to = push ? server : other,
                   .step = push ? 0U : 1U,
                   .channel = distance - 1,
                   .reduce = push,
                   .piece_begin = server,
                   .piece_end = server + 1,
                   .after = {}});
      }
    }
  }
  return std::move(list).take();
}

std::unique_ptr<CollectiveAlgorithm> ParameterServer::with_argument(
    std::string_view argument) const {
  std::uint32_t servers = 0;
  const char* end = argument.data() + argument.size();
  const auto [stop, fault] = std::from_chars(argument.data(), end, servers);
  if (fault != std::errc() || stop != end || servers == 0)
    throw InputError(
        {"", "", fmt::format("\"parameter_server:{}\" does not say how many servers", argument),
         "a whole number from 1 on, as in \"parameter_server:4\""});
  return std::make_unique<ParameterServer>(servers, fmt::format("parameter_server:{}", servers));
}

}  // namespace

const CollectiveAlgorithm& parameter_server_all_reduce() {
  static const ParameterServer algorithm(1, "parameter_server");
  return algorithm;
}

}  // namespace trainyard
