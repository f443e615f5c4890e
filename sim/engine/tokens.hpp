// What the ready queue has timed, as a Pricing hands it back (pricing.hpp).
//
// An operation: class and operation, which is also its place in the total order. A communication
// has the highest bit set, then the number of the live call and the flow class, or kNone for the
// latency of a phase.
#pragma once

#include <cstdint>

#include "sim/engine/pricing.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

inline constexpr Token kCallToken = Token{1} << 63;
// A kernel that communication may slow: the ticket of its announced end (slowed_compute.hpp).
inline constexpr Token kSlowedToken = Token{1} << 62;
// The host issues an operation that is ready but for that.
inline constexpr Token kIssueToken = Token{1} << 61;
// A date of the stretch under way of a rank class, with the ticket of its plan.
inline constexpr Token kStretchToken = Token{1} << 60;

constexpr Token operation_token(std::uint32_t rank_class, OpIndex op) {
  return Token{rank_class} << 32 | op;
}
constexpr Token call_token(std::uint32_t live_call, std::uint32_t flow_class) {
  return kCallToken | Token{live_call} << 32 | flow_class;
}
constexpr Token stretch_token(std::uint32_t rank_class, std::uint32_t ticket) {
  return kStretchToken | operation_token(rank_class, ticket);
}
constexpr std::uint32_t low_half(Token token) { return static_cast<std::uint32_t>(token); }
constexpr std::uint32_t high_half(Token token) {
  return static_cast<std::uint32_t>((token & ~(kCallToken | kStretchToken)) >> 32);
}

}  // namespace trainyard
