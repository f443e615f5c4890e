#include "sim/engine/slowdown.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace trainyard {

void SlowedCompute::touch(std::uint32_t rank_class) {
  State& state = classes_[rank_class];
  if (state.touched) return;
  state.touched = true;
  touched_.push_back(rank_class);
}

// A ticket is free again only when its announced date has come (finish). Until then the Pricing
// holds it, even if a later announcement has made it stale.
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
  classes_[rank_class].slowing.loss += loss;
  touch(rank_class);
}

void SlowedCompute::set_rate(std::uint32_t rank_class, double rate) {
  TY_CHECK(rate > 0.0, rank_class, rate);
  classes_[rank_class].slowing.rate = rate;
  touch(rank_class);
}

std::vector<Announcement> SlowedCompute::announce(double now) {
  std::vector<Announcement> announcements;
  for (const std::uint32_t rank_class : touched_) announce(rank_class, now, announcements);
  touched_.clear();
  return announcements;
}

// Cost: proportional to the kernels that run on the class, which are few. Kernels whose speed is
// unchanged keep the announced end, and so keep its date to the last bit.
void SlowedCompute::announce(std::uint32_t rank_class, double now,
                             std::vector<Announcement>& announcements) {
  State& state = classes_[rank_class];
  state.touched = false;
  const double before = state.speed;
  state.speed = state.slowing.speed();
  for (Running& running : state.running) {
    if (running.ticket != kNone) {
      if (state.speed == before) continue;
      running.left_s = std::max(0.0, running.left_s - (now - running.since_s) * before);
      running.since_s = now;
      // The announced end of this very instant is already due.
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
  // A later announcement has given the kernel another ticket.
  if (found == running.end()) return std::nullopt;
  const FinishedCompute finished{.rank_class = rank_class, .operation = found->operation};
  running.erase(found);
  return finished;
}

BusyMembers::BusyMembers(const Partition& partition, std::span<const double> loss) : loss_(loss) {
  if (loss.empty()) return;
  TY_CHECK(loss.size() == partition.groups.size(), loss.size(), partition.groups.size());
  members_.resize(partition.ranks.size());
  busy_.assign(loss.size(), 0);
  slow_.assign(loss.size(), false);
  for (std::uint32_t group = 0; group < loss.size(); ++group) {
    TY_CHECK(loss[group] >= 0.0 && loss[group] < 1.0, group, loss[group]);
    if (loss[group] <= 0.0) continue;
    for (const Participant& participant : partition.groups[group].participants)
      members_[participant.rank_class].groups.push_back(group);
  }
}

// Two steps: participants that have begun or ceased to compute since the last call, and then the
// groups that have gained their first or lost their last computing participant.
std::vector<BusyMembers::Change> BusyMembers::take_changes() {
  std::vector<Change> changes;
  if (touched_.empty()) return changes;
  std::vector<std::uint32_t> groups;
  for (const std::uint32_t rank_class : touched_) {
    Member& member = members_[rank_class];
    member.touched = false;
    const bool computes = member.running > 0;
    // One kernel followed another within the instant.
    if (computes == member.computed) continue;
    member.computed = computes;
    for (const std::uint32_t group : member.groups) {
      busy_[group] += computes ? 1U : ~0U;  // plus one, or minus one
      groups.push_back(group);
    }
  }
  touched_.clear();
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (const std::uint32_t group : groups) {
    const bool slow = busy_[group] > 0;
    if (slow == slow_[group]) continue;
    slow_[group] = slow;
    changes.push_back({group, slow ? 1.0 - loss_[group] : 1.0});
  }
  return changes;
}

}  // namespace trainyard
