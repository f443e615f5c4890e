#include "sim/engine/link_ledger.hpp"

#include <algorithm>

namespace trainyard {

LinkLedger::LinkLedger(const Partition& partition, const LinkSets& sets)
    : partition_(partition),
      sets_(sets),
      use_(sets.sets.size()),
      flows_ended_(partition.flows.size(), 0) {}

void LinkLedger::started(std::uint32_t flow_class, double now_s) {
  for (const LinkSets::Share& share : sets_.of_flow[flow_class]) {
    SetUse& use = use_[share.set];
    if (use.alive == 0) use.busy_since_s = now_s;
    ++use.alive;
  }
}

void LinkLedger::ended(std::uint32_t flow_class, double now_s) {
  ++flows_ended_[flow_class];
  for (const LinkSets::Share& share : sets_.of_flow[flow_class]) {
    SetUse& use = use_[share.set];
    --use.alive;
    if (use.alive == 0) use.busy_s += now_s - use.busy_since_s;
  }
}

std::vector<LinkUse> LinkLedger::link_use() const {
  std::vector<LinkUse> result(partition_.links.size());
  for (std::uint32_t flow = 0; flow < partition_.flows.size(); ++flow) {
    const double payload =
        partition_.flows[flow].payload_bytes * static_cast<double>(flows_ended_[flow]);
    for (const FlowClass::Weight& weight : partition_.flows[flow].weights) {
      result[weight.link_class].bytes += payload * weight.weight;
    }
  }
  for (std::uint32_t link_class = 0; link_class < result.size(); ++link_class) {
    if (sets_.set_of_class[link_class] == kNone) continue;
    const SetUse& use = use_[sets_.set_of_class[link_class]];
    result[link_class].busy_s = use.busy_s;
    result[link_class].peak_utilisation = std::min(1.0, use.peak * sets_.relative_use[link_class]);
  }
  return result;
}

}  // namespace trainyard
