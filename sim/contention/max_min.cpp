#include "sim/contention/max_min.hpp"

#include <algorithm>

namespace trainyard {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kTogether = 1e-12;  // relative; values nearer than this are equal

}  // namespace

std::size_t MaxMinFlows::add_link(double capacity) {
  capacity_.push_back(capacity);
  demand_.push_back(0.0);
  return capacity_.size() - 1;
}

void MaxMinFlows::add(MaxMinFlow flow) {
  const double payload = flow.payload;
  flows_.push_back({.told = std::move(flow), .left = payload});
}

// Cost: each round freezes at least one flow and goes over all loads, so at most flows times loads.
bool MaxMinFlows::share() {
  free_capacity_ = capacity_;
  bool any = false;
  for (Flow& flow : flows_) {
    flow.frozen = flow.left <= 0.0;
    if (flow.frozen) flow.rate = 0.0;
    any = any || !flow.frozen;
  }
  while (freeze_slowest()) {
  }
  return any;
}

// Whether the flow can rise no further than the level: its cap or one of its links stops it there.
bool MaxMinFlows::held_back(const Flow& flow, double level) const {
  return flow.told.cap <= level * (1.0 + kTogether) ||
         std::ranges::any_of(flow.told.loads, [&](const auto& load) {
           return free_capacity_[load.first] <= level * demand_[load.first] * (1.0 + kTogether);
         });
}

// One round of progressive filling: raises all rates until a link is full or a cap is reached, and
// freezes the flows that this holds back. Returns false when all are frozen.
//
// Worked: links A and B of 10 and 4 GB/s; flow 1 crosses A, flow 2 both, flow 3 crosses B. The
// first round stops at 4 / 2 = 2 GB/s and freezes flows 2 and 3. The second gives flow 1 the 8 GB/s
// that are left on A.
bool MaxMinFlows::freeze_slowest() {
  std::ranges::fill(demand_, 0.0);
  double level = kNever;
  bool any = false;
  for (const Flow& flow : flows_) {
    if (flow.frozen) continue;
    any = true;
    level = std::min(level, flow.told.cap);
    for (const auto& [link, load] : flow.told.loads) demand_[link] += load;
  }
  if (!any) return false;
  for (std::size_t link = 0; link < demand_.size(); ++link)
    if (demand_[link] > 0.0) level = std::min(level, free_capacity_[link] / demand_[link]);
  // All flows are compared with the capacities of this round before any of them takes its share.
  std::vector<Flow*> held;
  for (Flow& flow : flows_)
    if (!flow.frozen && held_back(flow, level)) held.push_back(&flow);
  for (Flow* flow : held) {
    flow->rate = level;
    flow->frozen = true;
    for (const auto& [link, load] : flow->told.loads) free_capacity_[link] -= load * level;
  }
  return true;
}

double MaxMinFlows::until_next_end() const {
  double step = kNever;
  for (const Flow& flow : flows_)
    if (flow.left > 0.0) step = std::min(step, flow.left / flow.rate);
  return step;
}

void MaxMinFlows::advance(double seconds) {
  now_s_ += seconds;
  for (Flow& flow : flows_) {
    if (flow.left <= 0.0) continue;
    // The tolerance lets flows that end together end in one step.
    const bool ended = flow.left / flow.rate <= seconds * (1.0 + kTogether);
    flow.left = ended ? 0.0 : flow.left - flow.rate * seconds;
    if (ended) flow.end_s = now_s_;
  }
}

std::vector<double> MaxMinFlows::fills() const {
  std::vector<double> use(capacity_.size(), 0.0);
  for (const Flow& flow : flows_)
    for (const auto& [link, load] : flow.told.loads) use[link] += load * flow.rate;
  for (std::size_t link = 0; link < use.size(); ++link) use[link] /= capacity_[link];
  return use;
}

}  // namespace trainyard
