// all_reduce by parameter servers: each of k members holds 1/k of the parameters; every worker
// pushes its gradients to them and pulls the sums back.
//
//    T = 2 (alpha + (n-1) S/(k B))     the ports of the servers are the bottleneck
//    T = 2 (alpha + (n-k) S/(k B))     dedicated servers
//
// "parameter_server" has one server, "parameter_server:4" has four. They are the first members of
// the group, which are workers as well. In "parameter_server:4-dedicated" the last four members
// only serve: they have no gradients and need no sums, and the others are the n-4 workers. (A
// data-parallel group of a training step has no such members, so scenarios refuse it there.)
// Workers that do not wait for each other do not form a collective; see
// parameter_server_traffic.hpp. Source: M. Li et al., "Scaling Distributed Machine Learning with
// the Parameter Server", OSDI 2014. n = 8, k = 4, S = 2^30, B = 100 GB/s, alpha = 5 us: 37
// 590.963840 us, dedicated 21 484.836480 us (tests/sim/collectives/parameter_server_test.cpp).
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "sim/base/error.hpp"
#include "sim/collectives/loads.hpp"
#include "sim/collectives/messages.hpp"

namespace trainyard {

namespace {

struct Servers {
  std::uint32_t count = 1;
  bool dedicated = false;
};

class ParameterServer final : public CollectiveAlgorithm {
 public:
  ParameterServer(const Servers& servers, std::string name)
      : servers_(servers), name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  CollectiveOp op() const override { return CollectiveOp::AllReduce; }
  bool has_servers() const override { return true; }
  std::string_view summary() const override {
    return "gradients pushed to k members and pulled back (:k, one if left out; :k-dedicated where "
           "the last k only serve)";
  }
  std::uint32_t pieces(const PlacedGroup& /*placed*/) const override { return servers_.count; }
  std::uint32_t servers(const PlacedGroup& /*placed*/) const override {
    return servers_.dedicated ? servers_.count : 0;
  }
  std::optional<std::string> refusal(const PlacedGroup& placed) const override {
    const std::size_t needed = servers_.count + (servers_.dedicated ? 1 : 0);
    if (needed <= placed.gpus.size()) return {};
    return fmt::format("{} servers need {} ranks, here are {}", servers_.count, needed,
                       placed.gpus.size());
  }
  std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const override {
    return phases_by_step(placed, listed(placed, bytes, CarriedOn::LeftOut), FlowOf::Sender);
  }
  std::vector<Message> messages(const PlacedGroup& placed, Bytes bytes) const override {
    return listed(placed, bytes, CarriedOn::Found);
  }
  std::unique_ptr<CollectiveAlgorithm> with_argument(std::string_view argument) const override;

 private:
  [[nodiscard]] std::vector<Message> listed(const PlacedGroup& placed, Bytes bytes,
                                            CarriedOn carried_on) const;

  Servers servers_;
  std::string name_;
};

// Each distance d is one channel. Server s communicates with the member at distance d on a ring of
// all members or, for dedicated servers, of the workers. All servers are therefore busy with
// different workers.
std::vector<Message> ParameterServer::listed(const PlacedGroup& placed, Bytes bytes,
                                             CarriedOn carried_on) const {
  const std::uint32_t n = ranks_of(placed);
  const std::uint32_t workers = servers_.dedicated ? n - servers_.count : n;
  const std::uint32_t places = std::max(workers, servers_.count);
  MessageList list({.ranks = n,
                    .pieces = servers_.count,
                    .piece_bytes = bytes.value() / servers_.count,
                    .carried_on = carried_on});
  const std::uint32_t nearest = servers_.dedicated ? 0 : 1;
  const std::uint32_t first_server = servers_.dedicated ? workers : 0;
  const auto exchange = [&](bool push, std::uint32_t distance, std::uint32_t server) {
    // With more servers than workers, some places of the ring have no worker.
    const std::uint32_t worker = (server + distance) % places;
    if (worker >= workers) return;
    const std::uint32_t group_rank = first_server + server;
    list.send({.from = push ? worker : group_rank,
               .to = push ? group_rank : worker,
               .step = push ? 0U : 1U,
               .channel = distance - nearest,
               .reduce = push,
               .piece_begin = server,
               .piece_end = server + 1});
  };
  for (const bool push : {true, false})
    for (std::uint32_t distance = nearest; distance < places; ++distance)
      for (std::uint32_t server = 0; server < servers_.count; ++server)
        exchange(push, distance, server);
  return std::move(list).take();
}

std::unique_ptr<CollectiveAlgorithm> ParameterServer::with_argument(
    std::string_view argument) const {
  constexpr std::string_view kDedicated = "-dedicated";
  Servers servers{.count = 0, .dedicated = argument.ends_with(kDedicated)};
  const std::string_view number =
      servers.dedicated ? argument.substr(0, argument.size() - kDedicated.size()) : argument;
  const char* end = number.data() + number.size();
  const auto [stop, fault] = std::from_chars(number.data(), end, servers.count);
  if (fault != std::errc() || stop != end || servers.count == 0)
    throw InputError(
        {"", "", fmt::format("\"parameter_server:{}\" does not say how many servers", argument),
         "a whole number from 1 on, as in \"parameter_server:4\" or "
         "\"parameter_server:4-dedicated\""});
  return std::make_unique<ParameterServer>(servers, fmt::format("parameter_server:{}", argument));
}

}  // namespace

const CollectiveAlgorithm& parameter_server_all_reduce() {
  static const ParameterServer algorithm({}, "parameter_server");
  return algorithm;
}

}  // namespace trainyard
