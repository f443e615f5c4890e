#include "sim/engine/slowed_compute.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/engine/engine.hpp"

namespace trainyard {

void SlowedCompute::touch(std::uint32_t rank_class) {
  State& state = classes_[rank_class];
  if (state.touched) return;
  state.touched = true;
  touched_.push_back(rank_class);
}

std::uint32_t SlowedCompute::new_ticket(std::uint32_t rank_class) {
  if (free_tickets_.empty()) {
    class_of_ticket_.push_back(rank_class);
    return static_cast<std::uint32_t>(class_of_ticket_.size() - 1);
  }
  const std::uint32_t ticket = free_tickets_.back();
  free_tickets_.pop_back();
  class_of_ticket_[ticket] = rank_class;
  return ticket;
}

void SlowedCompute::start(std::uint32_t rank_class, OpIndex op, double seconds, double now) {
  classes_[rank_class].running.push_back({.operation = op, .left_s = seconds, .since_s = now});
  touch(rank_class);
}

void SlowedCompute::change(std::uint32_t rank_class, double loss) {
  classes_[rank_class].loss += loss;
  touch(rank_class);
}

std::vector<Announcement> SlowedCompute::announce(double now) {
  std::vector<Announcement> announcements;
  for (const std::uint32_t rank_class : touched_) announce(rank_class, now, announcements);
  touched_.clear();
  return announcements;
}

void SlowedCompute::announce(std::uint32_t rank_class, double now,
                             std::vector<Announcement>& announcements) {
  State& state = classes_[rank_class];
  state.touched = false;
  const double before = state.speed;
  state.speed = 1.0 - std::min(state.loss, kComputeLossMost);
  for (Running& running : state.running) {
    if (running.ticket != kNone) {
      if (state.speed == before) continue;
      running.left_s = std::max(0.0, running.left_s - (now - running.since_s) * before);
      running.since_s = now;
      // The kernel's end of the same instant is already on its way.
      if (running.left_s <= 0.0) continue;
    }
    running.ticket = new_ticket(rank_class);
    announcements.push_back({.ticket = running.ticket, .seconds = running.left_s / state.speed});
  }
}

std::optional<FinishedCompute> SlowedCompute::finish(std::uint32_t ticket) {
  const std::uint32_t rank_class = class_of_ticket_[ticket];
  TY_CHECK(rank_class != kNone, ticket);
  class_of_ticket_[ticket] = kNone;
  free_tickets_.push_back(ticket);
  std::vector<Running>& running = classes_[rank_class].running;
  const auto found = std::find_if(running.begin(), running.end(), [ticket](const Running& entry) {
    return entry.ticket == ticket;
  });
  if (found == running.end()) return std::nullopt;
  const FinishedCompute finished{.rank_class = rank_class, .operation = found->operation};
  running.erase(found);
  return finished;
}

}  // namespace trainyard
