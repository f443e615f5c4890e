#include "sim/collectives/pipeline.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/collectives/loads.hpp"
#include "sim/collectives/placement.hpp"

namespace trainyard {

namespace {

// The first member that is on another node than group rank 0, or group rank 1 if there is none.
std::uint32_t far_neighbour(const PlacedGroup& placed) {
  for (std::uint32_t group_rank = 1; group_rank < placed.gpus.size(); ++group_rank)
    if (crosses_nodes(placed, 0, group_rank)) return group_rank;
  return 1;
}

// The rate of one flow on an idle route. A link that carries half of the flow's bytes (fraction
// 0.5) permits twice its capacity.
double rate_of(const Cluster& cluster, const Route& route) {
  double rate = std::numeric_limits<double>::infinity();
  for (const RouteHop& hop : route)
    rate = std::min(rate, cluster.link(hop.link).capacity.value() / hop.fraction);
  return rate;
}

}  // namespace

// Guards: without bytes or with a single hop there is nothing to overlap. Without latency the
// closed form is infinite, so the result is the largest number of chunks.
std::uint32_t chunks_of(const PlacedGroup& placed, Bytes bytes, std::size_t hops) {
  if (bytes.value() <= 0.0 || hops < 2) return 1;
  const std::uint32_t far = far_neighbour(placed);
  const double rate = rate_of(placed.cluster, hop_route(placed, 0, far));
  const double latency = hop_latency(placed, 0, far).value();
  if (latency <= 0.0) return kChunksMost;
  const double best = std::sqrt(bytes.value() * static_cast<double>(hops - 1) / (latency * rate));
  const double rounded = std::exp2(std::round(std::log2(best)));
  return static_cast<std::uint32_t>(std::clamp(rounded, 1.0, static_cast<double>(kChunksMost)));
}

std::uint32_t stream_chunks(Bytes bytes, std::uint32_t most) {
  constexpr double kChunkBytesLeast = 4096.0;
  const double fitting =
      std::clamp(bytes.value() / kChunkBytesLeast, 1.0, static_cast<double>(most));
  return std::bit_floor(static_cast<std::uint32_t>(fitting));
}

}  // namespace trainyard
