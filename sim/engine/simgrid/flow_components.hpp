// Isolated components of flows: flows that start together and share links with each other but with
// no other flow.
//
// The rates of such flows follow from the component alone, from the moment they start: rates are
// max-min fair until the first flow ends, then they are shared again among the rest
// (sim/contention/max_min.hpp). The same flows start together again in every microbatch, so the
// engine computes their ends once; from then on they are timers. When a flow starts that shares a
// link with a component, the component is broken up: the rest of its flows go to SimGrid and are
// solver flows.
//
// A flow of a component has the rate that SimGrid would give it, because a link counts as often as
// the flow's route lists it. REQUIRES: nothing else slows the flows while they are alive.
//
//    const FlowComponents::Placed& placed = components.place(fresh, now);
//    for (const FlowComponents::End& end : placed.ends) use(end.seconds);            // a timer
//    for (const FlowComponents::SolverFlow& flow : placed.solver_flows) use(flow);   // a Comm
//    components.finish(end.component, end.place);   // a timer has ended; true: so has its flow
//    components.solver_flow_ended(flow_class);      // a Comm has ended
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/contention/max_min.hpp"
#include "sim/engine/link_use.hpp"
#include "sim/engine/pricing.hpp"
#include "sim/engine/simgrid/platform.hpp"

namespace trainyard {

class FlowComponents {
 public:
  // REQUIRES: both outlive this.
  FlowComponents(const Platform& platform, LinkLedger& ledger);

  struct Member {
    Token token = 0;
    std::uint32_t flow_class = 0;
  };
  struct End {
    Member flow;
    std::uint32_t component = 0;
    std::uint32_t place = 0;
    double seconds = 0.0;  // from now
  };
  struct SolverFlow {
    Member flow;
    std::uint64_t payload_units = 0;
  };
  struct Placed {
    std::vector<End> ends;
    std::vector<SolverFlow> solver_flows;  // also those of components that were broken up
  };
  // Takes all flows that start at this instant. The result is valid until the next call.
  [[nodiscard]] const Placed& place(std::span<const Member> fresh, double now_s);
  // Returns true when the announced end counts; the flow is then gone.
  [[nodiscard]] bool finish(std::uint32_t component, std::uint32_t place);
  // A flow that SimGrid priced has ended.
  void solver_flow_ended(std::uint32_t flow_class);

 private:
  // How a set of flows shares links when the flows start together. Flows are numbered by their
  // index in the set.
  struct Pattern {
    MaxMinFlows start = {};           // before any byte has moved
    std::vector<double> ends_s = {};  // indexed by flow
    // By flow: the interval of constant rates at whose end it ends.
    std::vector<std::uint32_t> interval;
    // By interval: the links (of Platform::links) that are fuller than in any interval before, and
    // the share of capacity in use.
    std::vector<std::vector<std::pair<std::uint32_t, double>>> fuller = {};
    std::size_t told = 0;  // intervals that the ledger has received
  };
  struct Component {
    std::shared_ptr<Pattern> pattern = nullptr;
    double start_s = 0.0;
    std::vector<Member> members = {};
    std::vector<bool> alive = {};  // indexed by flow
    std::size_t left = 0;          // flows alive
  };
  struct LinkState {
    std::uint32_t solver_flows = 0;  // flows alive in SimGrid
    std::uint32_t isolated = 0;      // flows alive of `component`
    std::uint32_t component = kNone;
    // The first fresh flow that crosses it; valid where seen_at is the present call.
    std::uint32_t first = 0;
    std::uint32_t seen_at = 0;
  };

  void find_first_joined(std::span<const Member> fresh);
  [[nodiscard]] bool meets_someone(std::span<const Member> flows) const;
  [[nodiscard]] std::shared_ptr<Pattern> pattern_of(std::span<const Member> flows);
  void settle_pattern(Pattern& pattern, std::span<const Member> flows) const;
  std::map<std::uint32_t, std::size_t> start_of(MaxMinFlows& start,
                                                std::span<const Member> flows) const;
  [[nodiscard]] std::map<std::uint32_t, double> fills_of(
      const MaxMinFlows& moving, std::span<const Member> flows,
      const std::map<std::uint32_t, std::size_t>& numbers) const;
  void place_together(std::span<const Member> flows, double now_s);
  void start_component(std::span<const Member> flows, double now_s);
  void start_in_solver(const Member& flow, std::uint64_t payload_units);
  [[nodiscard]] static std::size_t move(MaxMinFlows& flows, double passed_s);
  void break_up(std::uint32_t id, double now_s);
  void leave(Component& component, std::uint32_t place);
  void tell(Pattern& pattern, std::size_t intervals);

  const Platform& platform_;
  LinkLedger& ledger_;
  std::vector<LinkState> links_;  // indexed like Platform::links
  // By flow classes, in their order.
  std::map<std::vector<std::uint32_t>, std::shared_ptr<Pattern>> patterns_;
  std::size_t flows_kept_ = 0;                               // flows of all patterns
  std::unordered_map<std::uint32_t, Component> components_;  // components with flows alive
  std::uint32_t next_ = 0;
  std::uint32_t call_ = 0;
  Placed placed_;
  // The present call of place() fills these lists: by fresh flow, the first flow that it is joined
  // to, and the heights of the trees that find it; fresh flows, component by component; one
  // component.
  std::vector<std::size_t> first_joined_;
  std::vector<std::size_t> height_;
  std::vector<std::uint32_t> order_;
  std::vector<Member> together_;
};

}  // namespace trainyard
