#include "sim/engine/simgrid/simgrid_engine.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <span>
#include <unordered_set>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/mixed.hpp"
#include "sim/engine/deadline_heap.hpp"
#include "sim/engine/link_use.hpp"
#include "sim/engine/ready_queue.hpp"
#include "sim/engine/simgrid/flow_components.hpp"
#include "sim/engine/simgrid/platform.hpp"
#include "sim/engine/simgrid/rate_changes.hpp"
#include "sim/engine/simgrid/solver_module.hpp"
#include "sim/engine/timed_flows.hpp"

namespace trainyard {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kFull = 1.0 - 1e-12;  // a utilisation that cannot grow any more

// Spreads flow classes over 64 bits, so that the sum over the live flows identifies their multiset
// (splitmix64, Steele et al., OOPSLA 2014).
constexpr std::uint64_t spread(std::uint64_t value) {
  return splitmix64_finaliser((value + 1) * kGoldenGamma);
}

// Two clocks run. now_s_ is the clock of the run, in whole ticks. SimGrid's clock advances only
// while Comms are alive; at other times the deadline heap runs ahead of it (run_timers_alone), and
// flows that need SimGrid wait until its clock has caught up.
//
// SimGrid's loop drives the run through three functions: transfer_ended() when a Comm ends, wake()
// at the next date of the heap, and settle() after all completions of an instant. settle() lets the
// ready queue start new work and then asks for the next call of wake().
class SimgridPricing final : public Pricing, private FluidSolver::Listener {
 public:
  SimgridPricing(const EngineInput& input, const SimgridOptions& options)
      : Pricing(tick_of(input)),
        sets_(merge_links(input.cluster, input.partition)),
        ledger_(sets_),
        timed_(input.partition, input.communication_loss, tick(), deadlines_),
        platform_(build_platform(input.partition, sets_, input.communication_loss)),
        changes_(platform_, sets_),
        components_(platform_, ledger_),
        by_components_(options.components && input.communication_loss.empty() &&
                       !has_timed_links(input.cluster.facts())),
        link_rates_(sets_.sets.size(), 1.0) {}

  [[nodiscard]] double now() const override { return now_s_; }

  void start_delay(Token token, double seconds) override {
    deadlines_.add(now_s_ + tick().duration(seconds), {token});
  }

  void start_delay_until(Token token, double date_s) override { deadlines_.add(date_s, {token}); }

  [[nodiscard]] std::optional<double> seconds_unshared(std::uint32_t flow_class) const override {
    if (!sets_.of_flow[flow_class].empty()) return std::nullopt;
    return platform_.routes[flow_class].seconds_alone;
  }

  void start_flow(Token token, std::uint32_t flow_class) override;
  void set_speed(std::uint32_t group_class, double speed) override;
  void set_link_rate(std::uint32_t link_class, double rate) override;
  void run(CompletionSink& sink) override;

  [[nodiscard]] PricingRecord record() const override {
    return {ledger_.watched(), activities_, platform_.rounded_weights};
  }

 private:
  struct LiveFlow {
    Token token = 0;
    std::uint32_t flow_class = 0;
    std::uint64_t payload_units = 0;
  };

  void need_solver();
  void place_fresh();
  void start_in_solver(const FlowComponents::SolverFlow& flow);
  void start_comm(std::uint32_t transfer);
  void set_bandwidth(std::uint32_t set, double rate) {
    solver_->set_bandwidth(set, platform_.links[set].capacity * rate);
  }
  template <class Visit>
  void for_each_slow_link(std::uint32_t flow_class, const Visit& visit) const;
  [[nodiscard]] const SlowableCap* cap_of(std::uint32_t flow_class) const;
  void transfer_ended(std::uint32_t transfer) override;
  void time_advanced(double seconds) override;
  void look_at(std::uint32_t link);
  void settle_soon();
  void settle();
  void wake_at(double date_s);
  void wake(double date_s);
  void start_waiting_flows();
  void run_timers_alone();
  [[nodiscard]] bool counts(const Due& due);
  void complete_due();
  void arm_next();

  LinkSets sets_;
  LinkLedger ledger_;
  DeadlineHeap deadlines_;
  TimedFlows timed_;
  Platform platform_;
  RateChanges changes_;
  FlowComponents components_;
  // False where computation slows communication or links have timed faults: a component assumes
  // constant rates.
  bool by_components_;
  std::vector<double> link_rates_;             // by set: the share of its capacity that it has now
  std::vector<FlowComponents::Member> fresh_;  // flows that start at this instant
  std::unique_lock<std::mutex> turn_;          // held while the solver exists
  std::unique_ptr<FluidSolver> solver_;        // nullptr until a flow needs it
  double clock_at_start_ = 0.0;
  CompletionSink* sink_ = nullptr;
  std::vector<LiveFlow> flows_;  // indexed by transfer
  std::vector<std::uint32_t> free_flows_;
  // Numbers to be freed, which is done outside SimGrid's completion callback.
  std::vector<std::uint32_t> ended_flows_;
  // Transfers that start when SimGrid's clock has caught up.
  std::vector<std::uint32_t> waiting_flows_;
  std::uint32_t comms_alive_ = 0;
  std::uint64_t activities_ = 0;
  // Hash of the live flow classes: equal keys mean equal rates.
  std::uint64_t alive_key_ = 0;
  // Keys whose rates have already been reported to the ledger.
  std::unordered_set<std::uint64_t> keys_seen_;
  double now_s_ = 0.0;
  double armed_s_ = kNever;
  bool settle_armed_ = false;
  bool ahead_of_simgrid_ = false;
};

// Loads SimGrid and describes the platform to it. From here on no other run of the process can use
// SimGrid until this one has ended. Speeds and rates that have changed before are set again,
// because the platform has the full ones.
void SimgridPricing::need_solver() {
  if (solver_) return;
  turn_ = fluid_solver_turn();
  solver_ = make_fluid_solver(*this);
  tell(*solver_, platform_);
  for (const SlowableCap& cap : platform_.caps)
    if (cap.speed != 1.0) solver_->set_bandwidth(cap.link, cap.capacity * cap.speed);
  for (std::uint32_t set = 0; set < link_rates_.size(); ++set)
    if (link_rates_[set] != 1.0) set_bandwidth(set, link_rates_[set]);
  clock_at_start_ = solver_->clock_s();
}

void SimgridPricing::start_flow(Token token, std::uint32_t flow_class) {
  ledger_.started(flow_class, now_s_);
  const FlowRoute& route = platform_.routes[flow_class];
  if (route.number == kNone) {
    timed_.start(token, flow_class, route.seconds_alone, now_s_);
    return;
  }
  if (by_components_) {
    fresh_.push_back({token, flow_class});
  } else {
    start_in_solver({{token, flow_class}, route.payload_units});
  }
}

// Runs when all flows that start at this instant are known.
void SimgridPricing::place_fresh() {
  if (fresh_.empty()) return;
  const FlowComponents::Placed& placed = components_.place(fresh_, now_s_);
  fresh_.clear();
  for (const FlowComponents::End& end : placed.ends) {
    deadlines_.add(now_s_ + tick().duration(end.seconds),
                   {end.flow.token, end.flow.flow_class, end.place, end.component});
  }
  for (const FlowComponents::SolverFlow& flow : placed.solver_flows) start_in_solver(flow);
}

void SimgridPricing::start_in_solver(const FlowComponents::SolverFlow& flow) {
  if (free_flows_.empty()) {
    free_flows_.push_back(static_cast<std::uint32_t>(flows_.size()));
    flows_.emplace_back();
  }
  const std::uint32_t transfer = free_flows_.back();
  free_flows_.pop_back();
  flows_[transfer] = {flow.flow.token, flow.flow.flow_class, flow.payload_units};
  if (ahead_of_simgrid_) {
    waiting_flows_.push_back(transfer);
  } else {
    start_comm(transfer);
  }
}

// SimGrid prices the Comms that are alive at the new bandwidth from now on.
void SimgridPricing::set_speed(std::uint32_t group_class, double speed) {
  timed_.set_speed(group_class, speed, now_s_);
  for (SlowableCap& cap : platform_.caps) {
    if (cap.group_class != group_class) continue;
    cap.speed = speed;
    if (solver_) solver_->set_bandwidth(cap.link, cap.capacity * speed);
    changes_.limited(cap.flow_class);
  }
  keys_seen_.clear();  // the same set of live flows has other rates now
}

void SimgridPricing::set_link_rate(std::uint32_t link_class, double rate) {
  const std::uint32_t set = sets_.set_of_class[link_class];
  TY_CHECK(set != kNone, link_class);
  link_rates_[set] = rate;
  if (solver_) set_bandwidth(set, rate);
  for (const LinkSet::User& user : sets_.sets[set].users) changes_.limited(user.flow_class);
  keys_seen_.clear();
}

// Visits the links of the flow's route that have lost capacity.
template <class Visit>
void SimgridPricing::for_each_slow_link(std::uint32_t flow_class, const Visit& visit) const {
  for (const ListedLink& listed : platform_.listed[flow_class])
    if (link_rates_[listed.link] != 1.0) visit(listed.link);
}

void SimgridPricing::start_comm(std::uint32_t transfer) {
  const LiveFlow& live = flows_[transfer];
  alive_key_ += spread(live.flow_class);
  changes_.started(live.flow_class);
  ++comms_alive_;
  ++activities_;
  const SlowableCap* cap = cap_of(live.flow_class);
  const bool slowed = cap != nullptr && cap->speed < 1.0;
  // A slowed Comm starts at full speed and is slowed at the same instant (SlowableCap).
  if (slowed) solver_->set_bandwidth(cap->link, cap->capacity);
  for_each_slow_link(live.flow_class, [&](std::uint32_t set) { set_bandwidth(set, 1.0); });
  solver_->start({.transfer = transfer,
                  .route = platform_.routes[live.flow_class].number,
                  .units = live.payload_units});
  if (slowed) solver_->set_bandwidth(cap->link, cap->capacity * cap->speed);
  for_each_slow_link(live.flow_class,
                     [&](std::uint32_t set) { set_bandwidth(set, link_rates_[set]); });
}

const SlowableCap* SimgridPricing::cap_of(std::uint32_t flow_class) const {
  const auto cap = std::lower_bound(
      platform_.caps.begin(), platform_.caps.end(), flow_class,
      [](const SlowableCap& entry, std::uint32_t flow) { return entry.flow_class < flow; });
  return cap != platform_.caps.end() && cap->flow_class == flow_class ? &*cap : nullptr;
}

void SimgridPricing::transfer_ended(std::uint32_t transfer) {
  const LiveFlow live = flows_[transfer];
  // SimGrid's date is rounded to a whole tick. The clock of the run never goes back.
  now_s_ = std::max(now_s_, tick().date(solver_->clock_s() - clock_at_start_));
  alive_key_ -= spread(live.flow_class);
  changes_.ended(live.flow_class);
  --comms_alive_;
  if (by_components_) components_.solver_flow_ended(live.flow_class);
  ended_flows_.push_back(transfer);
  ledger_.ended(live.flow_class, now_s_);
  sink_->completed(live.token);
  settle_soon();
}

// The interval that has just passed had constant rates, which depend only on the set of live flows.
// Peaks are read once per set, and only on links that the changes can have reached.
void SimgridPricing::time_advanced(double seconds) {
  if (seconds <= 0.0 || comms_alive_ == 0) return;
  if (!keys_seen_.insert(alive_key_).second) return changes_.forget();
  for (const std::uint32_t link : changes_.take()) look_at(link);
}

void SimgridPricing::look_at(std::uint32_t link) {
  const PricedLink& priced = platform_.links[link];
  if (!priced.shared || ledger_.peak_of(link) >= kFull) return;
  ledger_.reached(link, solver_->usage_of(link) / priced.capacity);
}

// Completions of one instant arrive one by one. The work that follows from them starts in a timer
// at that very date, after the last of them. The order of starts is then ours, and SimGrid is not
// re-entered from its callback.
void SimgridPricing::settle_soon() {
  if (settle_armed_) return;
  settle_armed_ = true;
  solver_->call_at(solver_->clock_s(), [this] { settle(); });
}

void SimgridPricing::settle() {
  settle_armed_ = false;
  for (const std::uint32_t ended : ended_flows_) {
    solver_->forget(ended);
    free_flows_.push_back(ended);
  }
  ended_flows_.clear();
  sink_->settled();
  place_fresh();
  run_timers_alone();
  arm_next();
}

bool SimgridPricing::counts(const Due& due) {
  if (due.component != kNone) return components_.finish(due.component, due.ticket);
  return timed_.finish(due.token, due.flow_class, due.ticket);
}

void SimgridPricing::complete_due() {
  now_s_ = std::max(now_s_, deadlines_.earliest());
  for (const Due& due : deadlines_.take_earliest()) {
    if (due.flow_class != kNone) {
      if (!counts(due)) continue;
      ledger_.ended(due.flow_class, now_s_);
    }
    sink_->completed(due.token);
  }
}

// While no Comm is alive, SimGrid has no events. Our own heap runs on, and SimGrid's clock catches
// up when the next flow starts.
void SimgridPricing::run_timers_alone() {
  if (comms_alive_ > 0) return;
  ahead_of_simgrid_ = true;
  while (waiting_flows_.empty() && !deadlines_.empty()) {
    complete_due();
    sink_->settled();
    place_fresh();
  }
  ahead_of_simgrid_ = false;
}

void SimgridPricing::arm_next() {
  if (!waiting_flows_.empty()) return wake_at(now_s_);
  if (!deadlines_.empty()) wake_at(deadlines_.earliest());
}

void SimgridPricing::wake_at(double date_s) {
  if (date_s >= armed_s_) return;
  armed_s_ = date_s;
  // Rounding may put the date just before SimGrid's clock, which accepts no past date.
  const double date = std::max(clock_at_start_ + date_s, solver_->clock_s());
  solver_->call_at(date, [this, date_s] { wake(date_s); });
}

// Handles a timer of wake_at(). A timer that an earlier one or our own heap has overtaken finds
// nothing due and arms the next one.
void SimgridPricing::wake(double date_s) {
  if (date_s == armed_s_) armed_s_ = kNever;
  if (!waiting_flows_.empty()) {
    if (date_s >= now_s_) start_waiting_flows();
  } else if (!deadlines_.empty() && deadlines_.earliest() <= date_s) {
    complete_due();
    return settle_soon();
  }
  arm_next();
}

void SimgridPricing::start_waiting_flows() {
  for (const std::uint32_t transfer : waiting_flows_) start_comm(transfer);
  waiting_flows_.clear();
}

void SimgridPricing::run(CompletionSink& sink) {
  sink_ = &sink;
  ahead_of_simgrid_ = true;
  // A run in which timers price everything never loads SimGrid.
  sink.settled();
  place_fresh();
  run_timers_alone();
  if (!waiting_flows_.empty()) {
    need_solver();
    arm_next();
    solver_->run();
  }
  TY_CHECK(comms_alive_ == 0 && waiting_flows_.empty() && deadlines_.empty(), comms_alive_, now_s_);
}

class SimgridEngine final : public Engine {
 public:
  explicit SimgridEngine(const SimgridOptions& options) : options_(options) {}

 private:
  [[nodiscard]] Timeline play(const EngineInput& input) const override {
    SimgridPricing pricing(input, options_);
    return replay(input, pricing);
  }

  SimgridOptions options_;
};

}  // namespace

std::unique_ptr<Engine> make_simgrid_engine(const SimgridOptions& options) {
  return std::make_unique<SimgridEngine>(options);
}

}  // namespace trainyard
