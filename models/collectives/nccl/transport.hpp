// The Transport that does what NCCL would: calls whose algorithm is "nccl" run by NCCL's own
// choice.
//
// Such a call takes the latency of NCCL's tuning model, then moves its bytes on the links of the
// chosen algorithm, inflated by the protocol (LL sends twice the bytes), and no faster than the
// model says. So alone on a fabric that gives what NCCL counts on it takes exactly the model's
// time; where a link has less, or others use it, it takes longer. Calls with other algorithms are
// CollectiveTransport's.
//
//   NcclTransport transport(cluster, {.version = "2.27"});
//   transport.label(call, gpus);     // "nccl: NVLS/Simple, 16 channels"
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "models/collectives/collective.hpp"
#include "models/collectives/nccl/tuning.hpp"

namespace trainyard::nccl {

inline constexpr std::string_view kNcclName = "nccl";

// The chosen algorithm's phases. All rails share the bytes, however few channels NCCL would use.
// Throws RunError for CollNet, and for NVLS across nodes, which need a network that reduces.
[[nodiscard]] std::vector<Phase> lower(const GroupPlace& place, const Choice& choice, double bytes);

// The registry's name of the algorithm that plays the choice message by message; nothing for NVLS,
// NVLSTree and CollNet, where switches take part.
[[nodiscard]] std::optional<std::string> stepwise_algorithm(const Choice& choice);

class NcclTransport final : public Transport {
 public:
  NcclTransport(const Cluster& cluster, Options options);

  // Throws RunError where the cluster's GPUs are not NVIDIA's and the options do not say what they
  // are.
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override;

  // What NCCL chooses; nothing for a group of one, another algorithm, and for send_recv and
  // all_to_all, which it does not tune.
  [[nodiscard]] std::optional<Choice> choice(const Call& call,
                                             std::span<const std::uint32_t> gpus) const;

  // "nccl: Ring/LL, 1 channel", "nccl: 32 channels, 32 a peer" (send_recv, all_to_all), or the name
  // of another algorithm.
  [[nodiscard]] std::string label(const Call& call, std::span<const std::uint32_t> gpus) const;

  // The communicator of a group of two or more.
  [[nodiscard]] const Communicator& communicator(std::span<const std::uint32_t> gpus) const;

 private:
  // Ranks, nodes, and which GPUs of its node the smallest part of the group has.
  using Shape = std::tuple<std::size_t, std::size_t, std::vector<std::uint32_t>>;

  const Cluster& cluster_;
  Options options_;
  std::optional<HostFacts> host_;
  CollectiveTransport others_;
  mutable std::map<Shape, Communicator> known_;  // groups of one shape share a communicator
};

}  // namespace trainyard::nccl
