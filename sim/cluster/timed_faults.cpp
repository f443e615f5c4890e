#include "sim/cluster/timed_faults.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

#include "sim/cluster/cluster.hpp"

namespace trainyard {

namespace {

bool hits_link(const TimedFault& fault, const Link& link) {
  return !fault.gpu && ((fault.from == link.from && fault.to == link.to) ||
                        (fault.from == link.to && fault.to == link.from));
}

// Faults that overlap in time multiply. A fault does not hold at its last date.
double rate_at(const std::vector<TimedFault>& faults, double date_s) {
  double rate = 1.0;
  for (const TimedFault& fault : faults)
    if (fault.from_s <= date_s && date_s < fault.until_s) rate *= fault.rate_left;
  return rate;
}

// The faults that hit a part.
template <class Hits>
std::vector<TimedFault> faults_of(const ClusterFacts& facts, const Hits& hits) {
  std::vector<TimedFault> faults;
  std::ranges::copy_if(facts.timed_faults, std::back_inserter(faults), hits);
  return faults;
}

// The rates of parts that wait for the slowest of them, each with its faults.
std::vector<RateStep> slowest_rates(const std::vector<std::vector<TimedFault>>& parts) {
  std::vector<double> dates = {0.0};
  for (const std::vector<TimedFault>& faults : parts)
    for (const TimedFault& fault : faults) {
      dates.push_back(fault.from_s);
      if (fault.until_s < std::numeric_limits<double>::infinity()) dates.push_back(fault.until_s);
    }
  if (dates.size() == 1) return {};
  std::ranges::sort(dates);
  std::vector<RateStep> steps;
  for (const double date : dates) {
    double rate = std::numeric_limits<double>::infinity();
    for (const std::vector<TimedFault>& faults : parts)
      rate = std::min(rate, rate_at(faults, date));
    if (steps.empty() || steps.back().rate != rate) steps.push_back({date, rate});
  }
  return steps;
}

}  // namespace

std::vector<RateStep> rates_of_gpu(const ClusterFacts& facts, std::uint32_t gpu) {
  return slowest_rates(
      {faults_of(facts, [gpu](const TimedFault& fault) { return fault.gpu == gpu; })});
}

std::vector<RateStep> rates_of_links(const Cluster& cluster, LinkId lowest) {
  if (!has_timed_links(cluster.facts())) return {};
  std::vector<std::vector<TimedFault>> parts;
  const auto add = [&](LinkId id) {
    const Link link = cluster.link(id);
    parts.push_back(faults_of(cluster.facts(),
                              [&link](const TimedFault& fault) { return hits_link(fault, link); }));
  };
  const StridedSpan parallel = cluster.router().parallel_links().links(lowest);
  for (const std::uint32_t link : parallel) add(LinkId{link});
  if (parts.empty()) add(lowest);
  return slowest_rates(parts);
}

bool has_timed_links(const ClusterFacts& facts) {
  return std::ranges::any_of(facts.timed_faults,
                             [](const TimedFault& fault) { return !fault.gpu; });
}

}  // namespace trainyard
