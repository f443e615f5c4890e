#include "sim/engine/link_use.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "sim/engine/link_sets.hpp"

namespace trainyard {

// A set of links is busy while at least one flow is alive on it.
void LinkLedger::started(std::uint32_t flow_class, double now_s) {
  for (const LinkSets::Share& share : sets_.of_flow[flow_class]) {
    SetUse& use = use_[share.set];
    if (use.alive == 0) use.busy_since_s = now_s;
    ++use.alive;
  }
}

void LinkLedger::ended(std::uint32_t flow_class, double now_s) {
  for (const LinkSets::Share& share : sets_.of_flow[flow_class]) {
    SetUse& use = use_[share.set];
    --use.alive;
    if (use.alive == 0) use.busy_s += now_s - use.busy_since_s;
  }
}

// Busy time and peak are those of the set, and the peak is scaled by the use of the class relative
// to the tightest class.
std::vector<LinkUse> LinkLedger::watched() const {
  std::vector<LinkUse> result(sets_.set_of_class.size());
  for (std::uint32_t link_class = 0; link_class < result.size(); ++link_class) {
    if (sets_.set_of_class[link_class] == kNone) continue;
    const SetUse& use = use_[sets_.set_of_class[link_class]];
    result[link_class].busy_s = use.busy_s;
    result[link_class].peak_utilisation = std::min(1.0, use.peak * sets_.relative_use[link_class]);
  }
  return result;
}

namespace {

// A flow that is alive on a meter's links.
struct Crossing {
  double end_s = 0.0;
  double rate = 0.0;
};

// The present load of one set of links. Alive flows are sorted by their ends.
struct Meter {
  bool idle = true;
  Crossing next = {};                // the alive flow that ends first
  std::vector<Crossing> later = {};  // the other alive flows, in descending order of their ends
  double busy_since_s = 0.0;
  double busy_s = 0.0;
  double rate = 0.0;  // bytes/s on one link of the set's tightest class
  double peak = 0.0;
};

// Goes once over the transfers in the order of their starts. Cost: one sorted insertion per
// transfer and set.
class Sweep {
 public:
  Sweep(const Cluster& cluster, const Partition& partition)
      : sets_(merge_links(cluster, partition, LinkUses::OfUncontended)),
        meters_(sets_.sets.size()) {
    for (const FlowClass& flow : partition.flows) payloads_.push_back(flow.payload_bytes);
  }

  // REQUIRES: `flows` are in order of start. At one instant the sweep applies ends before starts: a
  // flow that follows another does not overlap it.
  void run(std::span<const FlowSpan> flows) {
    for (const FlowSpan& span : flows) {
      const std::span<const LinkSets::Share> shares = sets_.of_flow[span.flow_class];
      // A transfer without duration has no rate. Its bytes count in add_bytes().
      if (shares.empty() || span.end_s <= span.start_s) continue;
      const double rate = payloads_[span.flow_class] / (span.end_s - span.start_s);
      for (const LinkSets::Share& share : shares) {
        Meter& meter = meters_[share.set];
        const Crossing crossing{span.end_s, share.weight * rate};
        if (!meter.idle && meter.later.empty() && meter.next.end_s <= span.start_s) {
          replace_only_flow(meter, span.start_s, crossing);
          continue;
        }
        while (!meter.idle && meter.next.end_s <= span.start_s) end_next(meter);
        start(meter, span.start_s, crossing);
      }
    }
    for (Meter& meter : meters_)
      while (!meter.idle) end_next(meter);
  }

  // Returns `use` of the link class with the swept busy time and peak. Returns `use` unchanged for
  // a class without an uncontended weight. The sweep covers the contended flows of such a class
  // too, so its busy time replaces that of the engine. The peak is the larger of the two, because
  // the engine's is exact for the flows that it watched and the sweep's is one of means.
  [[nodiscard]] LinkUse joined(std::uint32_t link_class, LinkUse use) const {
    const std::uint32_t number = sets_.set_of_class[link_class];
    if (number == kNone) return use;
    const double peak = meters_[number].peak * sets_.relative_use[link_class] /
                        sets_.sets[number].capacity_bytes_per_s;
    use.busy_s = meters_[number].busy_s;
    use.peak_utilisation = std::max(use.peak_utilisation, std::min(1.0, peak));
    return use;
  }

 private:
  // The flow that ends first is stored apart from the sorted rest, so that a set with one flow at a
  // time never touches the vector.
  static void start(Meter& meter, double now_s, const Crossing& crossing) {
    meter.rate += crossing.rate;
    meter.peak = std::max(meter.peak, meter.rate);
    if (meter.idle) {
      meter.idle = false;
      meter.busy_since_s = now_s;
      meter.next = crossing;
      return;
    }
    if (crossing.end_s < meter.next.end_s) {
      // `later` is in descending order, so the flow that was first until this moment goes to its
      // back.
      meter.later.push_back(std::exchange(meter.next, crossing));
      return;
    }
    const auto ends_later = [](const Crossing& a, const Crossing& b) { return a.end_s > b.end_s; };
    meter.later.insert(std::ranges::lower_bound(meter.later, crossing, ends_later), crossing);
  }

  // end_next() and start() in one step, for the most frequent case: one flow after another.
  static void replace_only_flow(Meter& meter, double now_s, const Crossing& crossing) {
    meter.busy_s += meter.next.end_s - meter.busy_since_s;
    meter.busy_since_s = now_s;
    meter.rate = crossing.rate;
    meter.peak = std::max(meter.peak, meter.rate);
    meter.next = crossing;
  }

  static void end_next(Meter& meter) {
    if (meter.later.empty()) {
      meter.idle = true;
      meter.busy_s += meter.next.end_s - meter.busy_since_s;
      meter.rate = 0.0;  // clears the rounding error
    } else {
      meter.rate -= meter.next.rate;
      meter.next = meter.later.back();
      meter.later.pop_back();
    }
  }

  LinkSets sets_;
  std::vector<Meter> meters_;     // indexed by set
  std::vector<double> payloads_;  // indexed by flow class
};

// Adds the bytes of all transfers, which are equal for the transfers of one flow class.
void add_bytes(const Partition& partition, std::span<const FlowSpan> flows,
               std::vector<LinkUse>& use) {
  std::vector<std::uint64_t> transfers(partition.flows.size(), 0);
  for (const FlowSpan& span : flows) ++transfers[span.flow_class];
  for (std::uint32_t flow = 0; flow < partition.flows.size(); ++flow) {
    const double payload =
        partition.flows[flow].payload_bytes * static_cast<double>(transfers[flow]);
    for (const FlowClass::Weight& weight : partition.flows[flow].weights)
      use[weight.link_class].bytes += payload * weight.weight;
  }
}

}  // namespace

std::vector<LinkUse> link_use(const Cluster& cluster, const Partition& partition,
                              std::span<const FlowSpan> flows, std::vector<LinkUse> watched) {
  std::vector<LinkUse> use = std::move(watched);
  add_bytes(partition, flows, use);
  Sweep sweep(cluster, partition);
  sweep.run(flows);
  for (std::uint32_t link_class = 0; link_class < use.size(); ++link_class)
    use[link_class] = sweep.joined(link_class, use[link_class]);
  return use;
}

}  // namespace trainyard
