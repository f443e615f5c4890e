// Max-min fair rates of flows that start together on links that no other flow uses.
//
// All rates rise equally until a link is full or a flow's cap is reached. The flows that this holds
// back keep their rates, the others rise further (progressive filling, Bertsekas and Gallager 1992,
// section 6.5.2). Rates hold until a flow ends; then they are shared again among the rest.
//
// Worked: flows of 1 and 3 GB over one link of 2 GB/s: 1 GB/s each, the first ends at 1 s; then 2
// GB/s, the second ends at 2 s.
//
//    MaxMinFlows flows;
//    const std::size_t link = flows.add_link(2e9);
//    for (double bytes : {1e9, 3e9}) flows.add({.payload = bytes, .loads = {{link, 1.0}}});
//    while (flows.share()) flows.advance(flows.until_next_end());
//    flows.end_s(1);  // 2
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace trainyard {

// Payloads and capacities may be in any unit, as long as it is the same.
struct MaxMinFlow {
  double payload = 0.0;
  double cap = std::numeric_limits<double>::infinity();  // limit of the rate, per second
  // Links by number, and the capacity of each that a rate of 1 takes.
  std::vector<std::pair<std::size_t, double>> loads = {};
};

class MaxMinFlows {
 public:
  std::size_t add_link(double capacity);
  void add(MaxMinFlow flow);

  // Computes the rates of the flows that are left. Returns false when none is left.
  bool share();
  // In seconds. REQUIRES, as for the two below: share() returned true.
  [[nodiscard]] double until_next_end() const;
  // Advances the clock. Flows within 1e-12 of their end, relative, end. REQUIRES: seconds <=
  // until_next_end().
  void advance(double seconds);
  [[nodiscard]] double rate(std::size_t flow) const { return flows_[flow].rate; }

  [[nodiscard]] std::size_t flows() const { return flows_.size(); }
  [[nodiscard]] std::size_t links() const { return capacity_.size(); }
  [[nodiscard]] double now_s() const { return now_s_; }  // seconds since the start
  [[nodiscard]] double left(std::size_t flow) const { return flows_[flow].left; }
  [[nodiscard]] double end_s(std::size_t flow) const { return flows_[flow].end_s; }
  // By link: the share of its capacity that is in use.
  [[nodiscard]] std::vector<double> fills() const;

 private:
  struct Flow {
    MaxMinFlow told = {};
    double left = 0.0;
    double rate = 0.0;
    double end_s = 0.0;
    bool frozen = false;
  };
  bool freeze_slowest();
  [[nodiscard]] bool held_back(const Flow& flow, double level) const;

  std::vector<double> capacity_;       // by link, as are the next two
  std::vector<double> free_capacity_;  // capacity that frozen flows leave
  std::vector<double> demand_;         // load of the other flows at a rate of 1
  std::vector<Flow> flows_;
  double now_s_ = 0.0;
};

}  // namespace trainyard
