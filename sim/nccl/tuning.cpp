#include "sim/nccl/tuning.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "sim/base/error.hpp"
#include "sim/nccl/tuning_parts.hpp"

namespace trainyard::nccl {

namespace {

constexpr double kRingPlateau = 1.4;  // of a Simple ring's latency between nodes
constexpr double kRingPlateauVolta = 1.9;
constexpr double kPlateauBytes = 64.0;  // per channel and rank
constexpr double kLongRing = 1024.0;    // NCCL's factor against rings of 8-bit floats
constexpr std::uint32_t kLongRingRanks = 8;
constexpr std::size_t kTreeCorrections = 23;  // sizes in which trees are corrected

// floor(log2(bytes / 64)), 0 for less.
std::size_t size_class(double bytes) {
  const auto blocks = static_cast<std::uint64_t>(std::max(bytes, 0.0)) >> 6;
  return blocks == 0 ? 0 : static_cast<std::size_t>(std::bit_width(blocks)) - 1;
}

double rate_correction(const Communicator& communicator, const TuningQuery& query,
                       const Method& method) {
  if (query.op != CollectiveOp::AllReduce) return 1.0;
  const auto& table =
      communicator.constants.tree_correction[static_cast<std::size_t>(method.protocol)];
  const std::size_t index = size_class(query.bytes);
  const bool tree = method.algorithm == Algorithm::Tree && index < kTreeCorrections;
  const bool nvls_tree = method.algorithm == Algorithm::NvlsTree &&
                         communicator.constants.rules.nvls_tree_corrected &&
                         communicator.node.sm >= 100 && communicator.node.cpu != CpuVendor::Arm;
  return (tree || nvls_tree) && index < table.size() ? table[index] : 1.0;
}

double latency_correction(const Communicator& communicator, const TuningQuery& query,
                          const Method& method) {
  const bool ring = method == Method{Algorithm::Ring, Protocol::Simple};
  if (!ring || communicator.nodes == 1 || query.op != CollectiveOp::AllReduce) return 1.0;
  const double share = std::floor(query.bytes / (communicator.channels * communicator.ranks));
  if (share < kPlateauBytes) return 1.0;
  return communicator.node.sm < 80 ? kRingPlateauVolta : kRingPlateau;
}

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::AllReduce || op == CollectiveOp::ReduceScatter ||
         op == CollectiveOp::Reduce;
}

}  // namespace

std::optional<Estimate> estimate(const Communicator& communicator, CollectiveOp op,
                                 const Method& method) {
  if (!is_offered(communicator, op, method)) return {};
  const double bus = bus_rate(communicator, op, method);
  if (bus <= 0.0) return {};
  return Estimate{.latency_us = latency_us(communicator, op, method),
                  .bus_rate = bus,
                  .algorithm_rate = bus * rate_ratio(communicator, op, method.algorithm)};
}

std::optional<Prediction> predict(const Communicator& communicator, const TuningQuery& query,
                                  const Method& method) {
  const auto plain = estimate(communicator, query.op, method);
  if (!plain) return {};
  const bool rounds = query.eight_bit_float && reduces(query.op) &&
                      method.algorithm == Algorithm::Ring && communicator.ranks > kLongRingRanks;
  return Prediction{
      .latency_us = plain->latency_us * latency_correction(communicator, query, method),
      .rate = plain->algorithm_rate * rate_correction(communicator, query, method),
      .penalty = rounds ? kLongRing : 1.0};
}

Choice choose(const Communicator& communicator, const TuningQuery& query) {
  std::optional<Choice> best;
  double best_time = 0.0;
  for (const Algorithm algorithm : kAlgorithms) {
    for (const Protocol protocol : kProtocols) {
      const Method method{algorithm, protocol};
      const auto prediction = predict(communicator, query, method);
      if (!prediction) continue;
      const double time = prediction->time_us(query.bytes) * prediction->penalty;
      if (best && time >= best_time) continue;
      best_time = time;
      best = Choice{.op = query.op, .method = method, .launch = {}, .prediction = *prediction};
    }
  }
  if (!best)
    throw RunError(
        fmt::format("NCCL {} has no algorithm left for {} on {} ranks of {} nodes: allow "
                    "more algorithms or protocols",
                    communicator.constants.version, to_string(query.op), communicator.ranks,
                    communicator.nodes));
  best->launch = launch_shape(communicator, query.op, best->method.algorithm, best->method.protocol,
                              query.bytes);
  return *best;
}

std::string to_text(const Choice& choice) {
  return fmt::format("{}/{}, {} channel{}", to_string(choice.method.algorithm),
                     to_string(choice.method.protocol), choice.launch.channels,
                     choice.launch.channels == 1 ? "" : "s");
}

}  // namespace trainyard::nccl
