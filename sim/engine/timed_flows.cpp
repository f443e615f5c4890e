#include "sim/engine/timed_flows.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

void TimedFlows::start(Token token, std::uint32_t flow_class, double seconds, double now) {
  const std::uint32_t group = group_of(flow_class);
  if (!slowable(group)) {
    deadlines_.add(now + tick_.duration(seconds), {token, flow_class});
    return;
  }
  const Live live{
      .flow_class = flow_class, .left_s = seconds, .since_s = now, .ticket = ++tickets_};
  const bool fresh = alive_[group].emplace(token, live).second;
  TY_CHECK(fresh, token, flow_class);
  deadlines_.add(now + tick_.duration(seconds / speeds_[group]), {token, flow_class, live.ticket});
}

// A deadline cannot be taken out of the heap. Each flow gets a new ticket instead, and finish()
// ignores a deadline with an older one.
void TimedFlows::set_speed(std::uint32_t group_class, double speed, double now) {
  TY_CHECK(speed > 0.0 && speed <= 1.0, speed, group_class);
  const double before = speeds_[group_class];
  speeds_[group_class] = speed;
  const auto alive = alive_.find(group_class);
  if (alive == alive_.end()) return;
  for (auto& [token, live] : alive->second) {
    live.left_s = std::max(0.0, live.left_s - (now - live.since_s) * before);
    live.since_s = now;
    // The deadline of this very instant is already due.
    if (live.left_s <= 0.0) continue;
    live.ticket = ++tickets_;
    deadlines_.add(now + tick_.duration(live.left_s / speed),
                   {token, live.flow_class, live.ticket});
  }
}

bool TimedFlows::finish(Token token, std::uint32_t flow_class, std::uint32_t ticket) {
  const std::uint32_t group = group_of(flow_class);
  if (!slowable(group)) return true;
  const auto alive = alive_.find(group);
  if (alive == alive_.end()) return false;
  const auto found = alive->second.find(token);
  if (found == alive->second.end() || found->second.ticket != ticket) return false;
  alive->second.erase(found);
  return true;
}

}  // namespace trainyard
