// Progressive filling, written only for the tests: the max-min rates and end times of transfers,
// directly from the definition (the max-min objective of SimGrid docs/source/Models.rst, "LMM-based
// Models"). The link or cap with the smallest share of its remaining capacity per unit of weight
// freezes its flows at that share, until all are frozen.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/sim/engine/builders.hpp"

namespace trainyard::test {

// The load of a transfer on a link, in units of its payload; the payload is its most loaded link.
struct FillingFlow {
  double start_s = 0.0;
  double payload = 0.0;
  double cap = kNoCap;
  std::vector<double> weight;  // by link
};

inline FillingFlow filling_flow(const Transfer& transfer, std::size_t links) {
  FillingFlow flow{transfer.start_s + transfer.latency_s, 0.0,
                   transfer.link_flow.rate_cap_bytes_per_s, std::vector<double>(links, 0.0)};
  for (const LinkLoad& load : transfer.link_flow.loads)
    flow.payload = std::max(flow.payload, load.bytes);
  for (const LinkLoad& load : transfer.link_flow.loads)
    flow.weight[load.link] = load.bytes / flow.payload;
  return flow;
}

// The max-min rates of the flows in `alive`, and 0 for the others.
inline std::vector<double> filled_rates(const std::vector<double>& capacities,
                                        const std::vector<FillingFlow>& flows,
                                        std::vector<bool> alive) {
  std::vector<double> rates(flows.size(), 0.0);
  std::vector<double> left = capacities;
  while (std::find(alive.begin(), alive.end(), true) != alive.end()) {
    double level = kNoCap;
    std::vector<double> demand(capacities.size(), 0.0);
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      if (!alive[flow]) continue;
      level = std::min(level, flows[flow].cap);
      for (std::size_t link = 0; link < left.size(); ++link)
        demand[link] += flows[flow].weight[link];
    }
    for (std::size_t link = 0; link < left.size(); ++link) {
      if (demand[link] > 0.0) level = std::min(level, left[link] / demand[link]);
    }
    std::vector<bool> frozen(flows.size(), false);
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      if (!alive[flow]) continue;
      frozen[flow] = flows[flow].cap <= level * (1.0 + 1e-13);
      for (std::size_t link = 0; link < left.size(); ++link) {
        if (flows[flow].weight[link] > 0.0 && left[link] / demand[link] <= level * (1.0 + 1e-13)) {
          frozen[flow] = true;
        }
      }
    }
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      if (!frozen[flow]) continue;
      alive[flow] = false;
      rates[flow] = level;
      for (std::size_t link = 0; link < left.size(); ++link)
        left[link] -= flows[flow].weight[link] * level;
    }
  }
  return rates;
}

// The time at which each flow ends.
inline std::vector<double> filled_ends(const std::vector<double>& capacities,
                                       const std::vector<FillingFlow>& flows) {
  std::vector<double> left;
  for (const FillingFlow& flow : flows) left.push_back(flow.payload);
  std::vector<double> ends(flows.size(), kNoCap);
  double now = 0.0;
  while (true) {
    std::vector<bool> alive(flows.size(), false);
    double next = kNoCap;
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      if (ends[flow] < kNoCap) continue;
      if (flows[flow].start_s > now)
        next = std::min(next, flows[flow].start_s);
      else
        alive[flow] = true;
    }
    const std::vector<double> rates = filled_rates(capacities, flows, alive);
    std::size_t first = flows.size();
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      if (!alive[flow] || now + left[flow] / rates[flow] >= next) continue;
      next = now + left[flow] / rates[flow];
      first = flow;
    }
    if (next == kNoCap) return ends;
    for (std::size_t flow = 0; flow < flows.size(); ++flow) {
      if (!alive[flow]) continue;
      left[flow] -= rates[flow] * (next - now);
      if (flow == first || left[flow] <= 1e-12 * flows[flow].payload) ends[flow] = next;
    }
    now = next;
  }
}

}  // namespace trainyard::test
