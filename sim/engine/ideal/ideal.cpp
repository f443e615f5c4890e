#include "sim/engine/ideal/ideal.hpp"

#include <algorithm>
#include <limits>

#include "sim/base/error.hpp"
#include "sim/engine/deadline_heap.hpp"
#include "sim/engine/link_sets.hpp"
#include "sim/engine/link_use.hpp"
#include "sim/engine/ready_queue.hpp"
#include "sim/engine/timed_flows.hpp"
#include "sim/fold/fold.hpp"

namespace trainyard {
namespace {

// No flow depends on another one, so the end of a flow is known when it starts: a heap of deadlines
// is the whole simulation.
class IdealPricing final : public Pricing {
 public:
  explicit IdealPricing(const EngineInput& input)
      : Pricing(tick_of(input)),
        partition_(input.partition),
        sets_(merge_links(input.cluster, input.partition)),
        ledger_(sets_),
        timed_(input.partition, input.communication_loss, tick(), deadlines_),
        utilisation_(sets_.sets.size(), 0.0) {
    for (const FlowClass& flow : input.partition.flows) {
      seconds_.push_back(flow_seconds_alone(input.cluster, input.partition, flow));
    }
  }

  [[nodiscard]] double now() const override { return now_s_; }

  void start_delay(Token token, double seconds) override {
    deadlines_.add(now_s_ + tick().duration(seconds), {token});
  }

  void start_delay_until(Token token, double date_s) override { deadlines_.add(date_s, {token}); }

  // The same answer as in the engine "simgrid", so that both engines find the same regions.
  [[nodiscard]] std::optional<double> seconds_unshared(std::uint32_t flow_class) const override {
    if (!sets_.of_flow[flow_class].empty()) return std::nullopt;
    return seconds_[flow_class];
  }

  void start_flow(Token token, std::uint32_t flow_class) override {
    ledger_.started(flow_class, now_s_);
    change_utilisation(flow_class, +1.0);
    timed_.start(token, flow_class, seconds_[flow_class], now_s_);
  }

  void set_speed(std::uint32_t group_class, double speed) override {
    timed_.set_speed(group_class, speed, now_s_);
  }

  void set_link_rate(std::uint32_t /*link_class*/, double /*rate*/) override {
    throw InputError(Problem{"", "/cluster/faults",
                             "the engine \"ideal\" knows no faults of links with dates",
                             "use the engine \"simgrid\""});
  }

  void run(CompletionSink& sink) override {
    sink.settled();
    while (!deadlines_.empty()) {
      now_s_ = deadlines_.earliest();
      for (const Due& due : deadlines_.take_earliest()) {
        if (due.flow_class != kNone) {
          if (!timed_.finish(due.token, due.flow_class, due.ticket)) continue;
          end_flow(due.flow_class);
        }
        sink.completed(due.token);
      }
      sink.settled();
    }
  }

  [[nodiscard]] PricingRecord record() const override { return {.links = ledger_.watched()}; }

 private:
  void end_flow(std::uint32_t flow_class) {
    ledger_.ended(flow_class, now_s_);
    change_utilisation(flow_class, -1.0);
  }

  // Adds or removes the share of link capacity that the flow alone takes while it is alive. The sum
  // over flows may exceed the capacity of a link.
  void change_utilisation(std::uint32_t flow_class, double sign) {
    const double rate = partition_.flows[flow_class].payload_bytes / seconds_[flow_class];
    for (const LinkSets::Share& share : sets_.of_flow[flow_class]) {
      double& utilisation = utilisation_[share.set];
      utilisation += sign * share.weight * rate / sets_.sets[share.set].capacity_bytes_per_s;
      if (ledger_.alive_on(share.set) == 0) utilisation = 0.0;  // clears the rounding error
      ledger_.reached(share.set, utilisation);
    }
  }

  const Partition& partition_;
  LinkSets sets_;
  LinkLedger ledger_;
  DeadlineHeap deadlines_;
  TimedFlows timed_;
  std::vector<double> seconds_;      // indexed by flow class
  std::vector<double> utilisation_;  // indexed by set
  double now_s_ = 0.0;
};

class IdealEngine final : public Engine {
  [[nodiscard]] Timeline play(const EngineInput& input) const override {
    IdealPricing pricing(input);
    return replay(input, pricing);
  }
};

}  // namespace

std::unique_ptr<Engine> make_ideal_engine() { return std::make_unique<IdealEngine>(); }

}  // namespace trainyard
