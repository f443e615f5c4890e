#include "sim/cluster/timed_faults.hpp"

#include <algorithm>
#include <iterator>

#include "sim/cluster/topology.hpp"

namespace trainyard {

namespace {

bool hits_link(const TimedFault& fault, const Link& link) {
  return !fault.gpu && ((fault.from == link.from && fault.to == link.to) ||
                        (fault.from == link.to && fault.to == link.from));
}

double rate_at(const std::vector<TimedFault>& faults, double date_s) {
  double rate = 1.0;
  for (const TimedFault& fault : faults)
    if (fault.from_s <= date_s && date_s < fault.until_s) rate *= fault.rate_left;
  return rate;
}

template <class Hits>
std::vector<RateStep> rates(const ClusterFacts& facts, const Hits& hits) {
  std::vector<TimedFault> faults;
  std::ranges::copy_if(facts.timed_faults, std::back_inserter(faults), hits);
  if (faults.empty()) return {};
  std::vector<double> dates = {0.0};
  for (const TimedFault& fault : faults) {
    dates.push_back(fault.from_s);
    if (fault.until_s < std::numeric_limits<double>::infinity()) dates.push_back(fault.until_s);
  }
  std::ranges::sort(dates);
  std::vector<RateStep> steps;
  for (const double date : dates) {
    const double rate = rate_at(faults, date);
    if (steps.empty() || steps.back().rate != rate) steps.push_back({date, rate});
  }
  return steps;
}

}  // namespace

std::vector<RateStep> rates_of_gpu(const ClusterFacts& facts, std::uint32_t gpu) {
  return rates(facts, [gpu](const TimedFault& fault) { return fault.gpu == gpu; });
}

std::vector<RateStep> rates_of_link(const ClusterFacts& facts, const Link& link) {
  return rates(facts, [&link](const TimedFault& fault) { return hits_link(fault, link); });
}

bool has_timed_links(const ClusterFacts& facts) {
  return std::ranges::any_of(facts.timed_faults,
                             [](const TimedFault& fault) { return !fault.gpu; });
}

}  // namespace trainyard
