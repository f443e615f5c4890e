#include "sim/engine/link_sweep.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "sim/base/packed_lists.hpp"

namespace trainyard {
namespace {

// A flow on its way through a meter.
struct Crossing {
  double end_s = 0.0;
  double rate = 0.0;
};

// Link classes crossed by the same flows are busy together and, up to a factor, equally full: one
// meter serves them all.
struct Meter {
  bool idle = true;
  Crossing next = {};                // of those alive, the one that ends first
  std::vector<Crossing> later = {};  // the others, the last to end first
  double busy_since_s = 0.0;
  double busy_s = 0.0;
  double rate = 0.0;  // bytes/s on one link, of the meter's first class
  double peak = 0.0;
};

struct Share {
  std::uint32_t meter = 0;
  double weight = 0.0;
};

class Sweep {
 public:
  explicit Sweep(const Partition& partition) : meter_of_class_(partition.links.size(), kNone) {
    std::vector<bool> watched(partition.links.size(), false);
    for (const FlowClass& flow : partition.flows) {
      for (const FlowClass::Weight& weight : flow.weights) {
        if (!weight.contended) watched[weight.link_class] = true;
      }
    }
    std::vector<std::vector<std::pair<std::uint32_t, double>>> users(partition.links.size());
    for (std::uint32_t flow = 0; flow < partition.flows.size(); ++flow) {
      for (const FlowClass::Weight& weight : partition.flows[flow].weights) {
        if (watched[weight.link_class]) users[weight.link_class].emplace_back(flow, weight.weight);
      }
    }
    std::map<std::vector<std::pair<std::uint32_t, double>>, std::uint32_t> known;
    for (std::uint32_t link_class = 0; link_class < users.size(); ++link_class) {
      if (!watched[link_class]) continue;
      const auto [entry, fresh] = known.try_emplace(std::move(users[link_class]),
                                                    static_cast<std::uint32_t>(meters_.size()));
      meter_of_class_[link_class] = entry->second;
      if (fresh) meters_.emplace_back();
    }
    shares_ = {partition.flows.size(), [&known](const auto& put) {
                 for (const auto& [crossing, meter] : known)
                   for (const auto& [flow, weight] : crossing) put(flow, {meter, weight});
               }};
    for (const FlowClass& flow : partition.flows) payloads_.push_back(flow.payload_bytes);
  }

  // `flows` in order of start. Ends go before starts of the same instant: what follows on does not
  // overlap.
  void run(std::span<const FlowSpan> flows) {
    for (const FlowSpan& span : flows) {
      const std::span<const Share> shares = shares_[span.flow_class];
      if (shares.empty() || span.end_s <= span.start_s) continue;
      const double rate = payloads_[span.flow_class] / (span.end_s - span.start_s);
      for (const Share& share : shares) {
        Meter& meter = meters_[share.meter];
        const Crossing crossing{span.end_s, share.weight * rate};
        if (!meter.idle && meter.later.empty() && meter.next.end_s <= span.start_s) {
          relieve(meter, span.start_s, crossing);
          continue;
        }
        while (!meter.idle && meter.next.end_s <= span.start_s) end_next(meter);
        start(meter, span.start_s, crossing);
      }
    }
    for (Meter& meter : meters_)
      while (!meter.idle) end_next(meter);
  }

  [[nodiscard]] const Meter* meter(std::uint32_t link_class) const {
    const std::uint32_t meter = meter_of_class_[link_class];
    return meter == kNone ? nullptr : &meters_[meter];
  }

 private:
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
      meter.later.push_back(std::exchange(meter.next, crossing));
      return;
    }
    const auto ends_later = [](const Crossing& a, const Crossing& b) { return a.end_s > b.end_s; };
    meter.later.insert(std::ranges::lower_bound(meter.later, crossing, ends_later), crossing);
  }

  // end_next() and start() in one, for what most meters see: one flow after another.
  static void relieve(Meter& meter, double now_s, const Crossing& crossing) {
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
      meter.rate = 0.0;  // no rounding error is carried on
    } else {
      meter.rate -= meter.next.rate;
      meter.next = meter.later.back();
      meter.later.pop_back();
    }
  }

  std::vector<Meter> meters_;
  PackedLists<Share> shares_;                  // by flow class
  std::vector<double> payloads_;               // by flow class
  std::vector<std::uint32_t> meter_of_class_;  // by link class; kNone: an engine watched it
};

}  // namespace

std::vector<LinkUse> with_uncontended(const Cluster& cluster, const Partition& partition,
                                      std::span<const FlowSpan> flows, std::vector<LinkUse> use) {
  Sweep sweep(partition);
  sweep.run(flows);
  for (std::uint32_t link_class = 0; link_class < use.size(); ++link_class) {
    const Meter* meter = sweep.meter(link_class);
    if (meter == nullptr) continue;
    const double capacity =
        cluster.link(partition.links[link_class].representative).capacity.value();
    LinkUse& link = use[link_class];
    link.busy_s = meter->busy_s;
    link.peak_utilisation = std::max(link.peak_utilisation, std::min(1.0, meter->peak / capacity));
  }
  return use;
}

}  // namespace trainyard
