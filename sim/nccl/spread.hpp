// How far measured calls of NCCL lie from their predictions on clusters that nobody fitted.
//
//    const CallSpread& spread = spread_of(16, 1 << 30);   // 16 nodes, 1 GiB
//    time_us * spread.low, time_us * spread.high;     // nine of ten measured calls lie between
//
// `fit_nccl` computes it: the constants are fitted without a cluster (on one node, without a table
// or log), and the calls of that cluster are compared with their predictions. Each cluster counts
// alike, however many calls it has.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace trainyard::nccl {

// Calls on a similar number of nodes with a similar number of bytes.
struct CallSpread {
  std::uint32_t nodes_least = 1;
  std::uint32_t nodes_most = std::numeric_limits<std::uint32_t>::max();
  std::int64_t bytes_least = 0;
  std::int64_t bytes_most = std::numeric_limits<std::int64_t>::max();
  // Measured time over predicted time: one call in twenty is below `low`, and one above `high`.
  double low = 1.0;
  double high = 1.0;
  std::uint32_t calls = 0;
  std::uint32_t clusters = 0;
  // The share of calls between the two limits if these come from the other clusters alone.
  double inside = 0.0;

  [[nodiscard]] bool holds(std::uint32_t nodes, std::int64_t bytes) const {
    return nodes >= nodes_least && nodes <= nodes_most && bytes >= bytes_least &&
           bytes <= bytes_most;
  }
};

// The classes of data/spread.json, of which every call has one. Throws InputError.
[[nodiscard]] const std::vector<CallSpread>& spreads();
// The class of a call of `bytes` on a group over `nodes`. REQUIRES: nodes >= 1, bytes >= 0.
[[nodiscard]] const CallSpread& spread_of(std::uint32_t nodes, std::int64_t bytes);
// "1 MiB and more on 2 to 8 nodes".
[[nodiscard]] std::string calls_of(const CallSpread& spread);

}  // namespace trainyard::nccl
