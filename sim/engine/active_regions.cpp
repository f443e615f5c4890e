#include "sim/engine/active_regions.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// Plans that are stored per shape. In a full pipeline, few sequences of losses alternate.
constexpr std::size_t kPlansKept = 16;

// Contraction is exact only where no host delays operations and no computation slows communication.
bool applies(const EngineInput& input) {
  return input.contract && input.hosts.empty() && input.communication_loss.empty();
}

}  // namespace

ActiveRegions::ActiveRegions(const EngineInput& input, Pricing& pricing)
    : input_(input),
      pricing_(pricing),
      programs_(input.workload.programs.size()),
      player_(pricing.tick()) {
  const Partition& partition = input.partition;
  // Rank classes by program. A region of a program must hold for every class that runs it.
  std::vector<std::vector<std::uint32_t>> classes_of(programs_.size());
  for (std::uint32_t rank_class = 0; rank_class < partition.ranks.size(); ++rank_class) {
    program_of_.push_back(partition.ranks[rank_class].program);
    classes_of[program_of_.back()].push_back(rank_class);
  }
  active_.resize(partition.ranks.size());
  priced_.resize(partition.ranks.size());
  std::vector<EnginePrograms::Contraction> asked;
  for (std::uint32_t program = 0; program < programs_.size(); ++program) {
    if (classes_of[program].empty()) continue;
    if (applies(input)) {
      asked.push_back({.program = program, .joinable = joinable(program, classes_of[program])});
    } else {
      programs_[program] = input.known->plain(program);
    }
  }
  // One request for all programs: their regions are searched in parallel.
  const auto known = input.known->contracted(asked);
  for (std::size_t i = 0; i < asked.size(); ++i) programs_[asked[i].program] = known[i];
  for (std::uint32_t rank_class = 0; rank_class < priced_.size(); ++rank_class)
    priced_[rank_class].resize(regions_of(rank_class).shapes.size());
}

// By collective of the program: whether it is closed for every class that runs the program.
std::vector<bool> ActiveRegions::joinable(std::uint32_t program,
                                          std::span<const std::uint32_t> rank_classes) {
  std::vector<bool> result;
  for (const auto& [slot, call] : input_.known->calls(program).collectives()) {
    result.push_back(std::ranges::all_of(rank_classes, [&](std::uint32_t rank_class) {
      return closed_call(input_.partition.places[rank_class][slot].group_class, call) != nullptr;
    }));
  }
  return result;
}

// Returns null for a call that may not be a member. The answer is cached either way: an entry
// without a value is a known no.
const ActiveRegions::ClosedCall* ActiveRegions::closed_call(std::uint32_t group_class,
                                                            std::uint32_t call) {
  const auto [entry, fresh] = calls_.try_emplace({group_class, call});
  if (fresh) entry->second = priced_call(group_class, call);
  return entry->second ? &*entry->second : nullptr;
}

// Computes the time of a collective whose flows nothing holds back. Returns nothing where ranks of
// other classes take part, because these may arrive later, or where a flow shares a link that may
// hold it back. Latencies and flows are rounded to ticks one by one, as the ready queue does when
// it runs the phases of a call, so that both give the same dates.
std::optional<ActiveRegions::ClosedCall> ActiveRegions::priced_call(std::uint32_t group_class,
                                                                    std::uint32_t call) const {
  if (input_.partition.groups[group_class].participants.size() != 1) return std::nullopt;
  ClosedCall result;
  for (const FoldedPhase& phase : input_.partition.phases[group_class].at(call)) {
    result.seconds += pricing_.tick().duration(std::max(0.0, phase.latency_s));
    double longest = 0.0;
    for (const std::uint32_t flow : phase.flows) {
      if (input_.partition.flows[flow].payload_bytes <= 0.0) continue;
      const std::optional<double> unshared = pricing_.seconds_unshared(flow);
      if (!unshared) return std::nullopt;
      const double seconds = pricing_.tick().duration(*unshared);
      result.flows.push_back({flow, result.seconds, result.seconds + seconds});
      longest = std::max(longest, seconds);
    }
    // A phase ends when its last flow has ended.
    result.seconds += longest;
  }
  return result;
}

PieceCost ActiveRegions::cost(std::uint32_t rank_class, const RegionShape::Piece& piece) {
  if (piece.kind == OpKind::Compute) {
    const Program& program = input_.workload.programs[program_of_[rank_class]];
    return {.seconds = input_.kernel_seconds[program.kernel_of(piece.payload)]};
  }
  if (piece.kind == OpKind::Delay)
    return {.seconds = input_.workload.delays[piece.payload].value()};
  const std::uint32_t group_class = input_.partition.places[rank_class][piece.slot].group_class;
  const ClosedCall* call = closed_call(group_class, piece.payload);
  TY_CHECK(call != nullptr, group_class, piece.payload);
  const double loss = compute_loss(input_, group_class, piece.payload);
  return {.seconds = call->seconds, .loss = loss, .flows = &call->flows};
}

// Durations depend on the rank class, the shape does not: kernels and groups of a class are its
// own.
ActiveRegions::PricedShape& ActiveRegions::priced(std::uint32_t rank_class, std::uint32_t shape) {
  PricedShape& result = priced_[rank_class][shape];
  if (!result.costs.empty()) return result;
  const std::vector<RegionShape::Piece>& pieces = regions_of(rank_class).shapes[shape].pieces;
  result.costs.reserve(pieces.size());
  for (const RegionShape::Piece& piece : pieces) {
    result.costs.push_back(cost(rank_class, piece));
    const double seconds = result.costs.back().seconds;
    TY_CHECK(seconds >= 0.0 && std::isfinite(seconds), rank_class, seconds);
    const std::vector<FlowSpan>* flows = result.costs.back().flows;
    if (flows == nullptr) continue;
    for (const FlowSpan& flow : *flows)
      result.flows.push_back({static_cast<std::uint32_t>(result.costs.size() - 1), flow});
  }
  return result;
}

void ActiveRegions::start(std::uint32_t rank_class, OpIndex head, std::uint32_t shape, double now) {
  Active& region = active_[rank_class];
  TY_CHECK(region.shape == nullptr, rank_class, region.head, head);
  region.head = head;
  region.shape = &regions_of(rank_class).shapes[shape];
  region.priced = &priced(rank_class, shape);
  region.times = nullptr;
  region.outside.clear();
  region.start_s = now;
  region.next = region.last = nullptr;
}

bool ActiveRegions::plan(std::uint32_t rank_class, const Slowing& slowing, double now) {
  Active& region = active_[rank_class];
  if (region.outside.empty()) {
    region.outside.push_back({.from_s = 0.0, .slowing = slowing});
    plan(region);
    return true;
  }
  if (region.outside.back().slowing == slowing) return false;
  // Several changes at one instant leave one entry, that of the last.
  const double from_s = std::max(0.0, now - region.start_s);
  if (region.outside.back().from_s == from_s) {
    region.outside.back().slowing = slowing;
  } else {
    region.outside.push_back({.from_s = from_s, .slowing = slowing});
  }
  plan(region);
  return true;
}

// Plans the region from its start with all losses so far. A change acts from its date on only, so
// the dates that have passed are the same in every plan of the region.
//
// Example: a region of two kernels of 2 s each starts at 10 s and is over at 14 s. At 11 s a
// communication starts that takes half of the speed. In the new plan, with the losses {0 s: 0, 1 s:
// 0.5}, the kernels end at 3 and 7 s after the start. The region is over at 17 s, and the timer of
// 14 s has an older ticket.
void ActiveRegions::plan(Active& region) {
  ++region.ticket;
  // A new plan may have another order of the dates to come, but the passed ones are its first.
  const std::size_t left = std::span(region.next, region.last).size();
  const std::size_t passed = region.times == nullptr ? 0 : region.times->seen.size() - left;
  region.times = planned(region);
  region.last = region.times->seen.data() + region.times->seen.size();
  region.next = region.times->seen.data() + passed;
}

// Returns the plan of the region under its losses so far. A new plan takes the place of the oldest
// one of its shape. A region that still follows that plan keeps its times alive.
std::shared_ptr<const RegionTimes> ActiveRegions::planned(const Active& region) {
  PricedShape& priced = *region.priced;
  const auto known = std::ranges::find(priced.plans, region.outside, &Plan::outside);
  if (known != priced.plans.end()) return known->times;
  if (priced.plans.size() < kPlansKept) {
    priced.plans.emplace_back();
    priced.oldest = priced.plans.size() - 1;
  }
  Plan& plan = priced.plans[priced.oldest];
  priced.oldest = (priced.oldest + 1) % kPlansKept;
  plan.outside = region.outside;
  plan.times = std::make_shared<const RegionTimes>(
      player_.played(*region.shape, priced.costs, region.outside));
  return plan.times;
}

std::size_t ActiveRegions::retire(std::uint32_t rank_class, Timeline& timeline) {
  Active& region = active_[rank_class];
  const std::size_t operations = region.shape->pieces.size();
  if (input_.record) record(rank_class, timeline);
  region.shape = nullptr;
  region.times = nullptr;
  ++timeline.counters.regions;
  return operations;
}

// No operation of a region waits for another rank, so each starts when it is ready.
void ActiveRegions::record(std::uint32_t rank_class, Timeline& timeline) const {
  const Active& region = active_[rank_class];
  const std::vector<RegionShape::Piece>& pieces = region.shape->pieces;
  TY_CHECK(region.head + pieces.back().offset < timeline.classes[rank_class].end_s.size(),
           region.head, pieces.size());
  double* const ready_s = timeline.classes[rank_class].ready_s.data() + region.head;
  double* const start_s = timeline.classes[rank_class].start_s.data() + region.head;
  double* const end_s = timeline.classes[rank_class].end_s.data() + region.head;
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    const OpIndex offset = pieces[piece].offset;
    start_s[offset] = region.start_s + region.times->start_s[piece];
    ready_s[offset] = start_s[offset];
    end_s[offset] = region.start_s + region.times->end_s[piece];
  }
  for (const auto& [piece, flow] : region.priced->flows) {
    const double from_s = start_s[pieces[piece].offset];
    timeline.flows.push_back({flow.flow_class, from_s + flow.start_s, from_s + flow.end_s});
  }
}

}  // namespace trainyard
