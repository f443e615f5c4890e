#include "sim/engine/link_sweep.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

namespace trainyard {
namespace {

// Link classes crossed by the same flows are busy together and, up to a factor, equally full: one
// meter serves them all.
struct Meter {
  std::uint32_t alive = 0;
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
  explicit Sweep(const Partition& partition)
      : shares_(partition.flows.size()), meter_of_class_(partition.links.size(), kNone) {
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
      if (!fresh) continue;
      meters_.emplace_back();
      for (const auto& [flow, weight] : entry->first) {
        shares_[flow].push_back({entry->second, weight});
      }
    }
  }

  // `flows` in order of start. Meters are swept one by one: most flows of one follow one another.
  void run(const Partition& partition, std::span<const FlowSpan> flows) {
    std::vector<std::vector<Crossing>> crossings(meters_.size());
    for (const FlowSpan& span : flows) {
      const std::vector<Share>& shares = shares_[span.flow_class];
      if (shares.empty() || span.end_s <= span.start_s) continue;
      const double rate =
          partition.flows[span.flow_class].payload_bytes / (span.end_s - span.start_s);
      for (const Share& share : shares)
        crossings[share.meter].push_back({span.start_s, span.end_s, share.weight * rate});
    }
    for (std::size_t i = 0; i < meters_.size(); ++i) sweep(meters_[i], crossings[i]);
  }

  [[nodiscard]] const Meter* meter(std::uint32_t link_class) const {
    const std::uint32_t meter = meter_of_class_[link_class];
    return meter == kNone ? nullptr : &meters_[meter];
  }

 private:
  // A flow on its way through a meter.
  struct Crossing {
    double start_s = 0.0;
    double end_s = 0.0;
    double rate = 0.0;
  };

  // Ends go before starts of the same instant: what follows on does not overlap.
  static void sweep(Meter& meter, const std::vector<Crossing>& by_start) {
    std::vector<Crossing> sorted;
    if (!std::ranges::is_sorted(by_start, {}, &Crossing::end_s)) {
      sorted = by_start;
      std::ranges::stable_sort(sorted, {}, &Crossing::end_s);
    }
    const std::vector<Crossing>& by_end = sorted.empty() ? by_start : sorted;
    auto ending = by_end.begin();
    for (const Crossing& crossing : by_start) {
      for (; ending != by_end.end() && ending->end_s <= crossing.start_s; ++ending)
        end(meter, *ending);
      start(meter, crossing);
    }
    for (; ending != by_end.end(); ++ending) end(meter, *ending);
  }

  static void start(Meter& meter, const Crossing& crossing) {
    if (meter.alive++ == 0) meter.busy_since_s = crossing.start_s;
    meter.rate += crossing.rate;
    meter.peak = std::max(meter.peak, meter.rate);
  }

  static void end(Meter& meter, const Crossing& crossing) {
    if (--meter.alive == 0) {
      meter.busy_s += crossing.end_s - meter.busy_since_s;
      meter.rate = 0.0;  // no rounding error is carried on
    } else {
      meter.rate -= crossing.rate;
    }
  }

  std::vector<Meter> meters_;
  std::vector<std::vector<Share>> shares_;     // by flow class
  std::vector<std::uint32_t> meter_of_class_;  // by link class; kNone: an engine watched it
};

}  // namespace

std::vector<LinkUse> with_uncontended(const Cluster& cluster, const Partition& partition,
                                      std::span<const FlowSpan> flows, std::vector<LinkUse> use) {
  Sweep sweep(partition);
  sweep.run(partition, flows);
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
