#include "sim/engine/simgrid/rate_changes.hpp"

#include <algorithm>

namespace trainyard {

RateChanges::RateChanges(const Platform& platform, const LinkSets& sets)
    : platform_(platform),
      sets_(sets),
      flows_(platform.routes.size()),
      flows_on_(platform.links.size()),
      link_reached_at_(platform.links.size(), 0) {}

template <class Visit>
void RateChanges::for_each_link(std::uint32_t flow_class, const Visit& visit) const {
  for (const LinkSets::Share& share : sets_.of_flow[flow_class]) visit(share.set);
  const std::uint32_t cap = platform_.routes[flow_class].cap_link;
  if (cap != kNone) visit(cap);
}

void RateChanges::started(std::uint32_t flow_class) {
  changed_.push_back(flow_class);
  FlowState& flow = flows_[flow_class];
  ++flow.alive;
  // A class that has other flows alive, or that ended after the last take(), is still in the lists
  // of its links.
  if (flow.listed) return;
  flow.listed = true;
  for_each_link(flow_class, [&](std::uint32_t link) { flows_on_[link].push_back(flow_class); });
}

void RateChanges::ended(std::uint32_t flow_class) {
  changed_.push_back(flow_class);
  FlowState& flow = flows_[flow_class];
  if (--flow.alive > 0 || flow.ending) return;
  flow.ending = true;
  ending_.push_back(flow_class);
}

void RateChanges::limited(std::uint32_t flow_class) {
  if (flows_[flow_class].alive > 0) changed_.push_back(flow_class);
}

// Breadth-first search over flows and the links they share. Cost: the links and flows that the
// changes reach, once each. They are marked with the number of the call, so no mark has to be
// cleared.
const std::vector<std::uint32_t>& RateChanges::take() {
  ++call_;
  reached_.clear();
  for (const std::uint32_t flow_class : ending_) {
    FlowState& flow = flows_[flow_class];
    flow.ending = false;
    if (flow.alive > 0) continue;
    flow.listed = false;  // take() reaches all its links, which removes it from their lists
    reach_links_of(flow_class);
  }
  ending_.clear();
  for (const std::uint32_t flow_class : changed_) reach_links_of(flow_class);
  changed_.clear();
  for (std::size_t next = 0; next < reached_.size(); ++next) reach_flows_on(reached_[next]);
  return reached_;
}

void RateChanges::reach_links_of(std::uint32_t flow_class) {
  FlowState& flow = flows_[flow_class];
  if (flow.reached_at == call_) return;
  flow.reached_at = call_;
  for_each_link(flow_class, [&](std::uint32_t link) {
    if (link_reached_at_[link] == call_) return;
    link_reached_at_[link] = call_;
    reached_.push_back(link);
  });
}

void RateChanges::reach_flows_on(std::uint32_t link) {
  // Classes that have ended leave the list while it is read anyway.
  std::erase_if(flows_on_[link],
                [this](std::uint32_t flow_class) { return !flows_[flow_class].listed; });
  for (const std::uint32_t flow_class : flows_on_[link]) reach_links_of(flow_class);
}

}  // namespace trainyard
