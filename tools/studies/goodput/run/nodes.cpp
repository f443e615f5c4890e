#include "tools/studies/goodput/run/nodes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard {

// The first nodes of the job are lemons with their share, and the first ones that stand by too.
Nodes::Nodes(const Job& job, const DrawsOf& draws)
    : job_(job), draws_(draws), slots_(job.nodes()), standing_by_(job.spares.nodes) {
  if (job.lemons.share <= 0.0) return;
  for (std::int64_t slot = 0; slot < slots_; ++slot)
    if (draws_.uniform() < job.lemons.share) add_lemon({.slot = slot, .failures = 0});
  for (std::int64_t spare = 0; spare < standing_by_; ++spare)
    if (draws_.uniform() < job.lemons.share) lemons_standing_by_.push_back(0);
  for (std::int64_t node = 0; node < job.spares.cold_nodes; ++node)
    if (draws_.uniform() < job.lemons.share) lemons_elsewhere_.push_back(0);
}

void Nodes::add_lemon(const Lemon& lemon) {
  const auto at =
      std::lower_bound(lemons_.begin(), lemons_.end(), lemon,
                       [](const Lemon& one, const Lemon& other) { return one.slot < other.slot; });
  lemons_.insert(at, lemon);
}

// The slot with `place` slots before it that are not skipped. `skipped` is sorted: each skipped
// slot up to the place moves it on by one. If slot 1 is skipped, place 2 is slot 3.
std::int64_t Nodes::nth_of_others(std::int64_t place,
                                  const std::vector<std::int64_t>& skipped) const {
  for (const std::int64_t slot : skipped)
    if (slot <= place) ++place;
  return std::min(place, slots_ - 1);
}

// The place is a position on a line on which a sound node at work takes a length of 1 and a lemon
// takes `multiple`. The sound nodes lie first, so the kind of node follows from one comparison.
std::vector<std::int64_t> Nodes::hit(double place, std::int64_t count) const {
  const auto lemons = static_cast<std::int64_t>(lemons_.size());
  const std::int64_t others = slots_ - lemons - static_cast<std::int64_t>(empty_.size());
  const double weight =
      static_cast<double>(others) + job_.lemons.multiple * static_cast<double>(lemons);
  const double at = place * weight;
  std::int64_t slot = 0;
  if (at >= static_cast<double>(others) && lemons > 0) {
    const double lemon = (at - static_cast<double>(others)) / job_.lemons.multiple;
    slot = lemons_[static_cast<std::size_t>(std::min(static_cast<std::int64_t>(lemon), lemons - 1))]
               .slot;
  } else {
    std::vector<std::int64_t> skipped = empty_;
    for (const Lemon& one : lemons_) skipped.push_back(one.slot);
    std::sort(skipped.begin(), skipped.end());
    slot = nth_of_others(static_cast<std::int64_t>(at), skipped);
  }
  // A rack or a leaf takes an aligned group: an event of 8 nodes at slot 13 takes slots 8 to 15.
  std::vector<std::int64_t> all;
  const std::int64_t first = slot / count * count;
  for (std::int64_t one = first; one < std::min(first + count, slots_); ++one)
    if (!std::binary_search(empty_.begin(), empty_.end(), one)) all.push_back(one);
  return all;
}

double Nodes::repair_time() {
  const SpareNodes& spares = job_.spares;
  const double first = time_around(*spares.repair_s);
  const bool again = spares.manual_share > 0.0 && draws_.uniform() < spares.manual_share;
  return again ? first + time_around(spares.manual_repair_s) : first;
}

double Nodes::time_around(double mean) {
  switch (job_.spares.repair_distribution) {
    case RepairDistribution::Exponential:
      return draws_.exponential(mean);
    case RepairDistribution::Lognormal:
      return draws_.lognormal(mean, job_.spares.repair_sigma);
    case RepairDistribution::Fixed:
      break;
  }
  return mean;
}

// Takes a failed node out of its slot. Returns the failures of a lemon that stays one; a sound node
// comes back for a lemon that has failed often enough, or that the repair cures.
std::int64_t Nodes::take_out(std::int64_t slot) {
  empty_.insert(std::upper_bound(empty_.begin(), empty_.end(), slot), slot);
  const auto lemon = std::find_if(lemons_.begin(), lemons_.end(),
                                  [slot](const Lemon& one) { return one.slot == slot; });
  if (lemon == lemons_.end()) return kSound;
  const std::int64_t failures = lemon->failures + 1;
  lemons_.erase(lemon);
  const std::int64_t limit = job_.lemons.evict_after;
  const bool cured = job_.lemons.cured > 0.0 && draws_.uniform() < job_.lemons.cured;
  return cured || (limit > 0 && failures >= limit) ? kSound : failures;
}

void Nodes::lose(const std::vector<std::int64_t>& slots, double now) {
  collect_repairs(now);
  for (const std::int64_t slot : slots) {
    const std::int64_t failures = take_out(slot);
    if (job_.spares.repair_s) repairs_.push({.end_s = now + repair_time(), .failures = failures});
  }
}

// Borrowed nodes are given back before any node stands by, so that spares and the nodes elsewhere
// are as many as at the start once all repairs are complete.
void Nodes::collect_repairs(double now) {
  while (!repairs_.empty() && repairs_.top().end_s <= now) {
    const std::int64_t failures = repairs_.top().failures;
    repairs_.pop();
    const bool owed = borrowed_ > 0;  // it goes to where a borrowed node came from
    std::vector<std::int64_t>& lemons = owed ? lemons_elsewhere_ : lemons_standing_by_;
    if (failures != kSound) lemons.push_back(failures);
    if (owed) {
      --borrowed_;
    } else {
      ++standing_by_;
    }
  }
}

double Nodes::next_repair() const { return repairs_.empty() ? kNever : repairs_.top().end_s; }

void Nodes::fill_slot(std::int64_t failures) {
  if (failures != kSound) add_lemon({.slot = empty_.front(), .failures = failures});
  empty_.erase(empty_.begin());
}

// Draws without putting back: the first of 10 nodes with 2 lemons is one with probability 2/10.
std::int64_t Nodes::take_one(std::vector<std::int64_t>& lemons, std::int64_t count) {
  const auto bad = static_cast<double>(lemons.size());
  if (bad == 0.0 || draws_.uniform() * static_cast<double>(count) >= bad) return kSound;
  const std::int64_t failures = lemons.back();
  lemons.pop_back();
  return failures;
}

void Nodes::replace_from_spares(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    fill_slot(take_one(lemons_standing_by_, standing_by_));
    --standing_by_;
  }
}

std::int64_t Nodes::elsewhere() const {
  if (!job_.spares.cold_replace_s) return 0;
  if (job_.spares.cold_nodes == 0) return std::numeric_limits<std::int64_t>::max();
  return job_.spares.cold_nodes - borrowed_;
}

// Without a limit there are always as many lemons elsewhere as their share says.
std::int64_t Nodes::take_from_elsewhere() {
  if (job_.spares.cold_nodes > 0) return take_one(lemons_elsewhere_, elsewhere());
  const bool lemon = job_.lemons.share > 0.0 && draws_.uniform() < job_.lemons.share;
  return lemon ? 0 : kSound;
}

void Nodes::replace_from_elsewhere(std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    fill_slot(take_from_elsewhere());
    ++borrowed_;
  }
}

// The rates of failures are means over all nodes. With 2 % lemons of 5 times the rate, a sound node
// has 1/1.08 of the mean rate and a lemon 5/1.08.
double Nodes::failure_weight() const {
  const double mean = 1.0 + job_.lemons.share * (job_.lemons.multiple - 1.0);
  const double others = static_cast<double>(slots_) - static_cast<double>(lemons_.size()) -
                        static_cast<double>(empty_.size());
  return (others + job_.lemons.multiple * static_cast<double>(lemons_.size())) /
         (static_cast<double>(slots_) * mean);
}

}  // namespace trainyard
