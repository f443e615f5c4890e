// Flows that start together on links of their own, at max-min fair rates.
//
// Rates rise alike until a link is full or a flow's cap is reached; who is there keeps its rate,
// the others rise on (progressive filling, Bertsekas and Gallager 1992, section 6.5.2). Rates hold
// until a flow ends, then they are shared anew among the rest.
//
// Worked: flows of 1 and 3 GB over one link of 2 GB/s: 1 GB/s each, the first ends at 1 s; then
// 2 GB/s, the second ends at 2 s.
//
//   MaxMinFlows flows;
//   const std::size_t link = flows.add_link(2e9);
//   flows.add({.payload = 1e9, .loads = {{link, 1.0}}});
//   flows.add({.payload = 3e9, .loads = {{link, 1.0}}});
//   while (flows.share()) flows.advance(flows.until_next_end());
//   flows.end_s(1);  // 2
#pragma once

#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace trainyard {

// Payloads and capacities may be in any unit, as long as it is the same.
struct MaxMinFlow {
  double payload = 0.0;
  double cap = std::numeric_limits<double>::infinity();  // of the rate, a second
  // By the link's number: how much of it a rate of one takes.
  std::vector<std::pair<std::size_t, double>> loads = {};
};

class MaxMinFlows {
 public:
  std::size_t add_link(double capacity);
  void add(MaxMinFlow flow);

  // Gives what is left its rates; false when nothing is.
  bool share();
  // Seconds. REQUIRES, as the two below: share() was true.
  [[nodiscard]] double until_next_end() const;
  // So many seconds pass. Flows within 1e-12 of their end, relative, end. REQUIRES: no more than
  // until_next_end().
  void advance(double seconds);
  [[nodiscard]] double rate(std::size_t flow) const { return flows_[flow].rate; }

  [[nodiscard]] std::size_t flows() const { return flows_.size(); }
  [[nodiscard]] std::size_t links() const { return capacity_.size(); }
  [[nodiscard]] double now_s() const { return now_s_; }  // since the start
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

  std::vector<double> capacity_;  // by the link's number, as are these two:
  std::vector<double> room_;      // what frozen flows leave of it
  std::vector<double> demand_;    // of the others, at a rate of one
  std::vector<Flow> flows_;
  double now_s_ = 0.0;
};

}  // namespace trainyard
