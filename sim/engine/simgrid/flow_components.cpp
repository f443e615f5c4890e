#include "sim/engine/simgrid/flow_components.hpp"

#include <algorithm>
#include <boost/pending/disjoint_sets.hpp>
#include <cmath>
#include <numeric>
#include <ranges>

namespace trainyard {

namespace {

// The most flows of a component; SimGrid takes larger ones. The ends of n flows cost n times n
// rates.
constexpr std::size_t kMostFlows = 128;
// Patterns are dropped when they hold more flows than this: some 100 MB of sets that rarely start
// again.
constexpr std::size_t kMostKept = 100'000;
constexpr double kTogether = 1e-12;  // relative; dates nearer than this are one date

}  // namespace

FlowComponents::FlowComponents(const Platform& platform, LinkLedger& ledger)
    : platform_(platform), ledger_(ledger), links_(platform.links.size()) {}

const FlowComponents::Placed& FlowComponents::place(std::span<const Member> fresh, double now_s) {
  placed_.ends.clear();
  placed_.solver_flows.clear();
  find_first_joined(fresh);
  // Flows of one component are made adjacent; they stay in their order.
  order_.resize(fresh.size());
  std::iota(order_.begin(), order_.end(), 0U);
  const auto first = [&](std::uint32_t flow) { return first_joined_[flow]; };
  if (!std::ranges::is_sorted(order_, {}, first)) std::ranges::stable_sort(order_, {}, first);
  together_.clear();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    together_.push_back(fresh[order_[i]]);
    if (i + 1 < order_.size() && first(order_[i + 1]) == first(order_[i])) continue;
    place_together(together_, now_s);
    together_.clear();
  }
  return placed_;
}

// Finds for each fresh flow the first flow that a sequence of shared links joins it to. Union-find
// over the links: each link joins all fresh flows that cross it. If flows 0 and 2 share one link
// and flows 2 and 3 another, then 0, 2 and 3 are one component, and flow 1 is another one.
void FlowComponents::find_first_joined(std::span<const Member> fresh) {
  ++call_;
  height_.resize(fresh.size());
  first_joined_.resize(fresh.size());
  boost::disjoint_sets sets(height_.data(), first_joined_.data());
  for (std::uint32_t flow = 0; flow < fresh.size(); ++flow) sets.make_set(flow);
  for (std::uint32_t flow = 0; flow < fresh.size(); ++flow) {
    for (const auto& [link, count] : platform_.listed[fresh[flow].flow_class]) {
      LinkState& state = links_[link];
      if (state.seen_at != call_) {
        state.seen_at = call_;
        state.first = flow;
      } else {
        sets.union_set(state.first, flow);
      }
    }
  }
  const auto all = std::views::iota(std::size_t{0}, fresh.size());
  sets.compress_sets(all.begin(), all.end());
  sets.normalize_sets(all.begin(), all.end());
}

bool FlowComponents::meets_someone(std::span<const Member> flows) const {
  return std::ranges::any_of(flows, [this](const Member& flow) {
    return std::ranges::any_of(platform_.listed[flow.flow_class], [this](const ListedLink& listed) {
      return links_[listed.link].solver_flows + links_[listed.link].isolated > 0;
    });
  });
}

void FlowComponents::place_together(std::span<const Member> flows, double now_s) {
  // The new flows share links with flows that are alive. Max-min fairness then joins them all, so
  // SimGrid prices them together.
  if (flows.size() <= kMostFlows && !meets_someone(flows)) return start_component(flows, now_s);
  for (const Member& flow : flows) {
    for (const auto& [link, count] : platform_.listed[flow.flow_class])
      if (links_[link].isolated > 0) break_up(links_[link].component, now_s);
  }
  for (const Member& flow : flows)
    start_in_solver(flow, platform_.routes[flow.flow_class].payload_units);
}

void FlowComponents::start_in_solver(const Member& flow, std::uint64_t payload_units) {
  for (const auto& [link, count] : platform_.listed[flow.flow_class]) ++links_[link].solver_flows;
  placed_.solver_flows.push_back({flow, payload_units});
}

void FlowComponents::solver_flow_ended(std::uint32_t flow_class) {
  for (const auto& [link, count] : platform_.listed[flow_class]) --links_[link].solver_flows;
}

void FlowComponents::start_component(std::span<const Member> flows, double now_s) {
  const std::uint32_t id = next_++;
  Component& component = components_[id];
  component = {.pattern = pattern_of(flows),
               .start_s = now_s,
               .members = {flows.begin(), flows.end()},
               .alive = std::vector<bool>(flows.size(), true),
               .left = flows.size()};
  for (std::uint32_t place = 0; place < flows.size(); ++place) {
    for (const auto& [link, count] : platform_.listed[flows[place].flow_class]) {
      links_[link].component = id;
      ++links_[link].isolated;
    }
    placed_.ends.push_back({flows[place], id, place, component.pattern->ends_s[place]});
  }
}

bool FlowComponents::finish(std::uint32_t component, std::uint32_t place) {
  const auto found = components_.find(component);
  if (found == components_.end() || !found->second.alive[place]) return false;
  Pattern& pattern = *found->second.pattern;
  tell(pattern, pattern.interval[place] + 1);
  leave(found->second, place);
  if (found->second.left == 0) components_.erase(found);
  return true;
}

void FlowComponents::leave(Component& component, std::uint32_t place) {
  component.alive[place] = false;
  --component.left;
  for (const auto& [link, count] : platform_.listed[component.members[place].flow_class])
    --links_[link].isolated;
}

// Moves the flows until `passed_s` seconds have passed since their start. Returns how many
// intervals of constant rates have begun by then.
std::size_t FlowComponents::move(MaxMinFlows& flows, double passed_s) {
  std::size_t intervals = 0;
  while (passed_s - flows.now_s() > kTogether * passed_s && flows.share()) {
    flows.advance(std::min(flows.until_next_end(), passed_s - flows.now_s()));
    ++intervals;
  }
  return intervals;
}

// Hands the flows of a component to SimGrid with the bytes that they have left: the intervals of
// the pattern are replayed up to now. A flow that ends at this very instant keeps its timer.
void FlowComponents::break_up(std::uint32_t id, double now_s) {
  Component& component = components_.at(id);
  MaxMinFlows flows = component.pattern->start;
  const std::size_t intervals = move(flows, now_s - component.start_s);
  tell(*component.pattern, intervals);
  for (std::uint32_t place = 0; place < component.members.size(); ++place) {
    // SimGrid takes whole units. A flow with less than half a unit left keeps its timer.
    const auto left = static_cast<std::uint64_t>(std::llround(flows.left(place)));
    if (!component.alive[place] || left == 0) continue;
    leave(component, place);
    start_in_solver(component.members[place], left);
  }
  if (component.left == 0) components_.erase(id);
}

std::shared_ptr<FlowComponents::Pattern> FlowComponents::pattern_of(std::span<const Member> flows) {
  std::vector<std::uint32_t> classes;
  for (const Member& flow : flows) classes.push_back(flow.flow_class);
  if (const auto known = patterns_.find(classes); known != patterns_.end()) return known->second;
  if (flows_kept_ > kMostKept) {
    patterns_.clear();
    flows_kept_ = 0;
  }
  auto pattern = std::make_shared<Pattern>();
  settle_pattern(*pattern, flows);
  patterns_.emplace(std::move(classes), pattern);
  flows_kept_ += flows.size();
  return pattern;
}

// Adds the flows and their links to `start`. Links get numbers within the pattern; returns these by
// the link's number in Platform::links.
std::map<std::uint32_t, std::size_t> FlowComponents::start_of(MaxMinFlows& start,
                                                              std::span<const Member> flows) const {
  std::map<std::uint32_t, std::size_t> numbers;
  for (const Member& flow : flows) {
    const FlowRoute& route = platform_.routes[flow.flow_class];
    MaxMinFlow told{.payload = static_cast<double>(route.payload_units)};
    if (route.cap_link != kNone) told.cap = platform_.links[route.cap_link].capacity;
    for (const auto& [link, count] : platform_.listed[flow.flow_class]) {
      const auto [number, fresh] = numbers.try_emplace(link, start.links());
      if (fresh) start.add_link(platform_.links[link].capacity);
      told.loads.emplace_back(number->second, count);
    }
    start.add(std::move(told));
  }
  return numbers;
}

// How full each link is now, both shared links and those that cap a flow.
std::map<std::uint32_t, double> FlowComponents::fills_of(
    const MaxMinFlows& moving, std::span<const Member> flows,
    const std::map<std::uint32_t, std::size_t>& numbers) const {
  const std::vector<double> shared = moving.fills();
  std::map<std::uint32_t, double> fills;
  for (const auto& [link, number] : numbers) fills[link] = shared[number];
  for (std::size_t place = 0; place < flows.size(); ++place) {
    const std::uint32_t cap = platform_.routes[flows[place].flow_class].cap_link;
    if (cap == kNone) continue;
    fills[cap] = std::max(fills[cap], moving.rate(place) / platform_.links[cap].capacity);
  }
  return fills;
}

// Computes the ends of the flows, and for each interval the links that reach a new peak.
void FlowComponents::settle_pattern(Pattern& pattern, std::span<const Member> flows) const {
  const std::map<std::uint32_t, std::size_t> numbers = start_of(pattern.start, flows);
  MaxMinFlows moving = pattern.start;
  std::map<std::uint32_t, double> most;  // indexed by link
  pattern.interval.resize(flows.size());
  while (moving.share()) {
    std::vector<std::pair<std::uint32_t, double>>& fuller = pattern.fuller.emplace_back();
    for (const auto& [link, fill] : fills_of(moving, flows, numbers)) {
      if (fill <= most[link]) continue;
      most[link] = fill;
      fuller.emplace_back(link, fill);
    }
    moving.advance(moving.until_next_end());
    for (std::size_t place = 0; place < flows.size(); ++place) {
      // A flow that has just ended: its end is a copy of the clock, so the two are equal to the
      // last bit.
      if (moving.left(place) <= 0.0 && moving.end_s(place) == moving.now_s())
        pattern.interval[place] = static_cast<std::uint32_t>(pattern.fuller.size() - 1);
    }
  }
  for (std::size_t place = 0; place < flows.size(); ++place)
    pattern.ends_s.push_back(moving.end_s(place));
}

// Reports to the ledger the peaks of the intervals that have passed. Peaks of one pattern are equal
// each time, so each interval is reported once.
void FlowComponents::tell(Pattern& pattern, std::size_t intervals) {
  for (; pattern.told < intervals; ++pattern.told) {
    for (const auto& [link, fill] : pattern.fuller[pattern.told])
      if (platform_.links[link].shared) ledger_.reached(link, fill);
  }
}

}  // namespace trainyard
