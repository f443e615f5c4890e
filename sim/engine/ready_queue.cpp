#include "sim/engine/ready_queue.hpp"

#include <algorithm>
#include <boost/sort/pdqsort/pdqsort.hpp>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/engine/active_regions.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/engine/host_lane.hpp"
#include "sim/engine/link_use.hpp"
#include "sim/engine/rendezvous.hpp"
#include "sim/engine/slowdown.hpp"
#include "sim/engine/successors.hpp"

namespace trainyard {
namespace {

// Tokens identify timed work; Pricing returns them when the work has ended. The token of an
// operation is its rank class and number, so that tokens of operations sort in the total order. The
// token of a communication has the highest bit set, then the number of the live call and the flow
// class, or kNone for the latency of a phase.
//
//     bits  63 .. 59   the kind of work; all 0: an operation that runs for a known time
//           58 .. 32   rank class or live call, so each has fewer than 2^27
//           31 .. 0    operation, flow class, ticket or number of a rate change
constexpr Token kCallToken = Token{1} << 63;
// The end of a kernel that communication may slow; the low half is the ticket of the announced end
// (slowdown.hpp).
constexpr Token kSlowedToken = Token{1} << 62;
// The host issues an operation that only the host still delays.
constexpr Token kIssueToken = Token{1} << 61;
// A date of the active region of a rank class; the low half is the ticket of its plan.
constexpr Token kRegionToken = Token{1} << 60;
// A part of the cluster gets another rate; the low half is the number of the change.
constexpr Token kRateToken = Token{1} << 59;

constexpr Token operation_token(std::uint32_t rank_class, OpIndex op) {
  return Token{rank_class} << 32 | op;
}
constexpr Token call_token(std::uint32_t live_call, std::uint32_t flow_class) {
  return kCallToken | Token{live_call} << 32 | flow_class;
}
constexpr Token region_token(std::uint32_t rank_class, std::uint32_t ticket) {
  return kRegionToken | operation_token(rank_class, ticket);
}
constexpr std::uint32_t low_half(Token token) { return static_cast<std::uint32_t>(token); }
constexpr std::uint32_t high_half(Token token) {
  return static_cast<std::uint32_t>((token & ~(kCallToken | kRegionToken)) >> 32);
}

constexpr std::uint64_t kOperationsBetweenProgress = 1U << 16U;
constexpr double kNotYet = std::numeric_limits<double>::quiet_NaN();

// Reports read flows in the order of start, then flow class, then end. A lambda, which the sort
// compiles inline.
constexpr auto kEarlier = [](const FlowSpan& a, const FlowSpan& b) {
  if (a.start_s != b.start_s) return a.start_s < b.start_s;
  return std::tie(a.flow_class, a.end_s) < std::tie(b.flow_class, b.end_s);
};

// The event loop.
//
// The way of a piece of work through it:
//
// - kernel: begin(), begin_slowed() or begin_timed(), completed(), finish_timed();
// - communication: begin() of each participant, begin_call() of the last one, then for each phase
//   start_phase() for the latency, start_phase() for the flows, completed() and advance_call(), and
//   at last end_call(), which finishes the operation of every participant;
// - region: begin_region(), plan_regions(), pass_region() at each date that others await.
//
// Invariant: completed() only updates state; all new work starts in settled(), when every
// completion of the instant is known. The order of starts then depends on (rank class, operation)
// and on (group class, call) alone, not on the order in which a Pricing reports completions. Losses
// of speed change once per instant, at its end.
//
// Cost: one event per operation, flow and latency outside regions, and one per date that an
// operation outside a region waits for. A ready operation costs a step in a binary heap.
class Replay final : public CompletionSink {
 public:
  Replay(const EngineInput& input, Pricing& pricing);

  [[nodiscard]] Timeline run();

  void completed(Token token) override;
  void settled() override;

 private:
  // A call that all participants have reached. Its phases run one after the other: each is first in
  // its latency and then moves flows.
  struct LiveCall {
    Rendezvous::Call group_call;
    std::uint32_t call = 0;
    const std::vector<FoldedPhase>* phases = nullptr;
    // Index in `phases` of the phase that runs.
    std::uint32_t phase = 0;
    bool latency_passed = false;
    // Flows of this phase that have not ended.
    std::uint32_t flows_left = 0;
    double flows_started_s = 0.0;
  };

  // A date at which a timed fault begins or ends (sim/cluster/timed_faults.hpp).
  struct RateChange {
    bool of_link = false;
    std::uint32_t part = 0;  // link class or rank class
    RateStep step;
  };

  // The data that every event of a rank class reads.
  struct ClassView {
    const OperationList* operations = nullptr;
    const ProgramRegions* regions = nullptr;
    OpTimes* times = nullptr;  // null: times are not recorded
  };

  void add_class(std::uint32_t rank_class);
  void find_rate_changes();
  void start_rate_changes();
  void apply(const RateChange& change);
  [[nodiscard]] std::size_t flows_of(std::uint32_t rank_class) const;
  void make_room_for_times();
  // Records that the operation is ready, starts or ends now.
  void note(std::vector<double> OpTimes::*what, std::uint32_t rank_class, OpIndex op) {
    if (OpTimes* const times = views_[rank_class].times) (times->*what)[op] = pricing_.now();
  }
  [[nodiscard]] bool issued(std::uint32_t rank_class, OpIndex op);
  void begin(std::uint32_t rank_class, OpIndex op);
  void begin_timed(std::uint32_t rank_class, OpIndex op, double seconds);
  void begin_slowed(std::uint32_t rank_class, OpIndex op, double seconds);
  void slow(const LiveCall& call, double sign);
  void finish_timed(std::uint32_t rank_class, OpIndex op);
  void finish(std::uint32_t rank_class, OpIndex op);
  void release(std::uint32_t rank_class, OpIndex op) {
    waiting_->release(rank_class, op,
                      [&](OpIndex next) { ready_.push(operation_token(rank_class, next)); });
  }
  void count_finished(std::size_t operations);
  void begin_region(std::uint32_t rank_class, OpIndex head, std::uint32_t shape);
  void pass_region(std::uint32_t rank_class, std::uint32_t ticket);
  void plan_regions();
  void wake_for_region(std::uint32_t rank_class);
  void begin_call(const Rendezvous::Call& group_call);
  void advance_call(std::uint32_t live_call);
  [[nodiscard]] bool start_phase(std::uint32_t live_call);
  void end_call(std::uint32_t live_call);
  template <class Visit>
  void for_each_participant(const Rendezvous::Call& group_call, const Visit& visit) const;

  const EngineInput& input_;
  Pricing& pricing_;
  Rendezvous rendezvous_;
  std::priority_queue<Token, std::vector<Token>, std::greater<>> ready_;
  HostClocks hosts_;
  SlowedCompute slowed_;
  ActiveRegions active_;
  BusyMembers busy_;
  std::vector<ClassView> views_;         // indexed by rank class
  std::optional<WaitCounters> waiting_;  // set when all regions are known
  std::vector<bool> moves_;              // indexed by flow class: whether it has bytes to move
  std::vector<LiveCall> calls_;
  std::vector<std::uint32_t> free_calls_;
  std::vector<std::uint32_t> calls_to_advance_;  // calls where a phase or its latency has ended
  std::vector<std::uint32_t> regions_to_plan_;   // rank classes whose computation loss has changed
  std::vector<RateChange> rate_changes_;
  std::vector<std::uint32_t> due_rate_changes_;
  bool has_begun_ = false;
  // Regions that have passed a date and have further dates: rank class and ticket.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> regions_to_wake_;
  Timeline timeline_;
  std::uint64_t operations_ = 0;
  std::uint64_t finished_ = 0;
};

Replay::Replay(const EngineInput& input, Pricing& pricing)
    : input_(input),
      pricing_(pricing),
      rendezvous_(input.partition, *input.known),
      hosts_(input.hosts, input.workload, input.partition),
      slowed_(input.partition.ranks.size()),
      active_(input, pricing),
      busy_(input.partition, input.communication_loss) {
  TY_CHECK(input.compute_loss.empty() || input.compute_loss.size() == input.partition.groups.size(),
           input.compute_loss.size());
  std::vector<const Successors*> successors;
  for (std::uint32_t rank_class = 0; rank_class < input.partition.ranks.size(); ++rank_class) {
    add_class(rank_class);
    const std::uint32_t program = input.partition.ranks[rank_class].program;
    successors.push_back(&active_.of_program(program).successors);
  }
  waiting_.emplace(successors);
  for (const FlowClass& flow : input.partition.flows) moves_.push_back(flow.payload_bytes > 0.0);
  if (input.record) make_room_for_times();
  find_rate_changes();
}

// Reads the timed faults of the representative of each class. Rates are part of the first colours
// of ranks and links (folding_graph.cpp), so ranks and single links with other faults are in other
// classes.
void Replay::find_rate_changes() {
  const ClusterFacts& facts = input_.cluster.facts();
  if (facts.timed_faults.empty()) return;
  const auto add = [&](bool of_link, std::uint32_t part, const std::vector<RateStep>& steps) {
    for (const RateStep& step : steps) rate_changes_.push_back({of_link, part, step});
  };
  const Partition& partition = input_.partition;
  for (std::uint32_t i = 0; i < partition.ranks.size(); ++i)
    add(false, i,
        rates_of_gpu(facts, input_.workload.ranks[partition.ranks[i].representative].gpu));
  for (std::uint32_t i = 0; i < partition.links.size(); ++i)
    add(true, i, rates_of_links(input_.cluster, partition.links[i].representative));
}

// A change at 0 acts before the first operation starts.
void Replay::start_rate_changes() {
  for (std::uint32_t number = 0; number < rate_changes_.size(); ++number) {
    const RateStep& step = rate_changes_[number].step;
    if (step.from_s > 0.0) {
      pricing_.start_delay(kRateToken | number, step.from_s);
    } else {
      due_rate_changes_.push_back(number);
    }
  }
}

void Replay::apply(const RateChange& change) {
  if (change.of_link) return pricing_.set_link_rate(change.part, change.step.rate);
  slowed_.set_rate(change.part, change.step.rate);
  if (active_.alive(change.part)) regions_to_plan_.push_back(change.part);
}

void Replay::add_class(std::uint32_t rank_class) {
  const std::uint32_t program = input_.partition.ranks[rank_class].program;
  const EngineProgram& known = active_.of_program(program);
  const OperationList& operations = input_.workload.programs[program].operations;
  views_.push_back({.operations = &operations, .regions = &known.regions});
  operations_ += operations.size();
  for (const OpIndex head : known.successors.heads())
    ready_.push(operation_token(rank_class, head));
}

// The flows of all calls that a rank class makes as the first participant of their groups. An
// operation of a block counts once per instance of the block.
std::size_t Replay::flows_of(std::uint32_t rank_class) const {
  const Partition& partition = input_.partition;
  const OperationList& operations = *views_[rank_class].operations;
  std::vector<std::size_t> until = {0};
  for (const Operation& op : operations.written()) {
    std::size_t flows = 0;
    if (communicates(op.kind)) {
      const SlotTarget place = partition.places[rank_class][op.slot];
      if (place.participant == 0)
        for (const FoldedPhase& phase : partition.phases[place.group_class].at(op.payload))
          flows += static_cast<std::size_t>(
              std::ranges::count_if(phase.flows, [&](std::uint32_t flow) { return moves_[flow]; }));
    }
    until.push_back(until.back() + flows);
  }
  std::size_t all = 0;
  for (const Instance& instance : operations.instances()) {
    const Block& block = operations.block_of(instance);
    all += until[block.begin + block.count] - until[block.begin];
  }
  return all;
}

// NaN marks times of events that have not happened; the text of a deadlock reads it.
void Replay::make_room_for_times() {
  std::size_t flows = 0;
  for (std::uint32_t rank_class = 0; rank_class < views_.size(); ++rank_class)
    flows += flows_of(rank_class);
  timeline_.flows.reserve(flows);
  timeline_.classes.resize(views_.size());
  for (std::size_t rank_class = 0; rank_class < views_.size(); ++rank_class) {
    ClassView& view = views_[rank_class];
    view.times = &timeline_.classes[rank_class];
    for (auto what : {&OpTimes::ready_s, &OpTimes::start_s, &OpTimes::end_s})
      (view.times->*what).assign(view.operations->size(), kNotYet);
  }
}

Timeline Replay::run() {
  pricing_.run(*this);
  if (finished_ < operations_) {
    // After a stop request nothing starts, so what is left is no deadlock.
    if (input_.stop.stop_requested()) throw Cancelled("the simulation was stopped");
    throw Deadlock(input_.record ? deadlock_text(input_, rendezvous_, timeline_, pricing_.now())
                                 : "operations remain that can never start");
  }
  PricingRecord record = pricing_.record();
  if (input_.record) {
    // Flows are recorded when they end.
    boost::sort::pdqsort_branchless(timeline_.flows.begin(), timeline_.flows.end(), kEarlier);
    timeline_.links =
        link_use(input_.cluster, input_.partition, timeline_.flows, std::move(record.links));
  }
  timeline_.counters.operations = operations_;
  timeline_.counters.activities = record.activities;
  timeline_.counters.rounded_weights = record.rounded_weights;
  return std::move(timeline_);
}

void Replay::completed(Token token) {
  ++timeline_.counters.events;
  if ((token & kSlowedToken) != 0) {
    // An announced end that is stale finishes nothing.
    const auto finished = slowed_.finish(low_half(token));
    if (finished) finish_timed(finished->rank_class, finished->operation);
    return;
  }
  if ((token & kIssueToken) != 0) return ready_.push(token & ~kIssueToken);
  if ((token & kRateToken) != 0) return due_rate_changes_.push_back(low_half(token));
  if ((token & kRegionToken) != 0) return pass_region(high_half(token), low_half(token));
  if ((token & kCallToken) == 0) return finish_timed(high_half(token), low_half(token));
  LiveCall& call = calls_[high_half(token)];
  const std::uint32_t flow_class = low_half(token);
  if (flow_class == kNone) {
    call.latency_passed = true;
  } else {
    if (input_.record)
      timeline_.flows.push_back({flow_class, call.flows_started_s, pricing_.now()});
    if (--call.flows_left > 0) return;
    // The last flow ends the phase. The next phase begins with its own latency.
    call.latency_passed = false;
    ++call.phase;
  }
  calls_to_advance_.push_back(high_half(token));
}

// Starts the work of one instant. The order matters:
//
// 1. Faults change rates before any work of the instant is priced.
// 2. Calls go on to their next phase or end. Their ends make operations ready.
// 3. Ready operations start, in the total order. They may begin calls, and some end at once.
// 4. Kernels and regions are priced at the speeds that all this leaves. The speeds of calls come
//    last, because they depend on the kernels that run from here on.
void Replay::settled() {
  if (input_.stop.stop_requested()) return;
  if (!has_begun_) start_rate_changes();
  has_begun_ = true;
  for (const std::uint32_t number : due_rate_changes_) apply(rate_changes_[number]);
  due_rate_changes_.clear();
  // Calls advance in a total order: by group class and ordinal. The programs fix this order, while
  // the order in which flows of one instant end is that of the Pricing.
  std::sort(calls_to_advance_.begin(), calls_to_advance_.end(),
            [this](std::uint32_t a, std::uint32_t b) {
              return std::pair(calls_[a].group_call.group_class, calls_[a].group_call.ordinal) <
                     std::pair(calls_[b].group_call.group_class, calls_[b].group_call.ordinal);
            });
  for (const std::uint32_t live_call : calls_to_advance_) advance_call(live_call);
  calls_to_advance_.clear();
  // An operation without duration ends here, and the operations that wait for it join the queue.
  while (!ready_.empty()) {
    const Token token = ready_.top();
    ready_.pop();
    begin(high_half(token), low_half(token));
  }
  // Speeds change only here, when everything that starts or ends at this instant is known.
  for (const Announcement& end : slowed_.announce(pricing_.now()))
    pricing_.start_delay(kSlowedToken | end.ticket, end.seconds);
  plan_regions();
  for (const BusyMembers::Change& change : busy_.take_changes())
    pricing_.set_speed(change.group_class, change.speed);
}

// Returns false when the host has yet to issue the operation. The operation then returns to the
// queue at its issue date.
bool Replay::issued(std::uint32_t rank_class, OpIndex op) {
  const std::optional<double> date = hosts_.issue_date(rank_class, op);
  if (!date) {
    hosts_.park(rank_class, op);
    return false;
  }
  if (*date <= pricing_.now()) return true;
  pricing_.start_delay(kIssueToken | operation_token(rank_class, op), *date - pricing_.now());
  return false;
}

void Replay::begin(std::uint32_t rank_class, OpIndex op) {
  const ClassView& view = views_[rank_class];
  // Regions exist only where hosts issue operations without delay (active_regions.hpp), so their
  // heads are not checked against the host.
  const std::uint32_t shape = view.regions->shape_of(op);
  if (shape < kInsideRegion) return begin_region(rank_class, op, shape);
  if (!issued(rank_class, op)) return;
  const Operation& operation = (*view.operations)[op];
  // The ready time of an operation that has waited for its host is its issue date.
  note(&OpTimes::ready_s, rank_class, op);
  switch (operation.kind) {
    case OpKind::Compute: {
      busy_.started(rank_class);
      const std::uint32_t program = input_.partition.ranks[rank_class].program;
      return begin_slowed(
          rank_class, op,
          input_.kernel_seconds[input_.workload.programs[program].kernel_of(operation)]);
    }
    case OpKind::Delay:
      return begin_timed(rank_class, op, input_.workload.delays[operation.payload].value());
    case OpKind::Collective:
    case OpKind::Send:
    case OpKind::Recv:
      if (const auto group_call = rendezvous_.arrive(rank_class, op, operation.slot))
        begin_call(*group_call);
      return;
  }
}

void Replay::begin_timed(std::uint32_t rank_class, OpIndex op, double seconds) {
  TY_CHECK(seconds >= 0.0 && seconds < std::numeric_limits<double>::infinity(), seconds, rank_class,
           op);
  note(&OpTimes::start_s, rank_class, op);
  if (seconds > 0.0) return pricing_.start_delay(operation_token(rank_class, op), seconds);
  finish_timed(rank_class, op);
}

void Replay::begin_slowed(std::uint32_t rank_class, OpIndex op, double seconds) {
  const bool may_slow = !input_.compute_loss.empty() || !rate_changes_.empty();
  // Where nothing ever slows computation, a kernel is a plain timer without a ticket.
  if (!may_slow || !(seconds > 0.0)) return begin_timed(rank_class, op, seconds);
  note(&OpTimes::start_s, rank_class, op);
  slowed_.start(rank_class, op, seconds, pricing_.now());
}

// Slows the computation of a call's members when the call begins (sign +1), and restores it when
// the call ends (-1).
void Replay::slow(const LiveCall& live, double sign) {
  const std::uint32_t group_class = live.group_call.group_class;
  const double loss = compute_loss(input_, group_class, live.call);
  if (loss <= 0.0) return;
  for (const Participant& participant : input_.partition.groups[group_class].participants) {
    slowed_.change(participant.rank_class, sign * loss);
    if (active_.alive(participant.rank_class)) regions_to_plan_.push_back(participant.rank_class);
  }
}

void Replay::begin_region(std::uint32_t rank_class, OpIndex head, std::uint32_t shape) {
  active_.start(rank_class, head, shape, pricing_.now());
  regions_to_plan_.push_back(rank_class);
}

// Plans the regions that have started or whose loss has changed. It runs at the end of an instant:
// when a call follows another with the same loss, no region is planned again.
void Replay::plan_regions() {
  for (const std::uint32_t rank_class : regions_to_plan_) {
    if (active_.plan(rank_class, slowed_.slowing(rank_class), pricing_.now()))
      wake_for_region(rank_class);
  }
  regions_to_plan_.clear();
  // A region that was planned above has another ticket, and its timer is set already.
  for (const auto& [rank_class, ticket] : regions_to_wake_)
    if (active_.awaits(rank_class, ticket)) wake_for_region(rank_class);
  regions_to_wake_.clear();
}

void Replay::wake_for_region(std::uint32_t rank_class) {
  const Token token = region_token(rank_class, active_.ticket(rank_class));
  pricing_.start_delay_until(token, std::max(active_.next_date(rank_class), pricing_.now()));
}

// A date of a region has come: operations outside that wait for its members go on. The timer for
// the next date is not set here but in plan_regions(), because the plan may change within this
// instant.
void Replay::pass_region(std::uint32_t rank_class, std::uint32_t ticket) {
  const bool told = active_.pass(rank_class, ticket, pricing_.now(),
                                 [&](OpIndex ended) { release(rank_class, ended); });
  if (!told) return;
  if (!active_.over(rank_class)) {
    regions_to_wake_.emplace_back(rank_class, ticket);
    return;
  }
  timeline_.makespan_s = pricing_.now();
  count_finished(active_.retire(rank_class, timeline_));
}

// Ends a computation or a delay.
void Replay::finish_timed(std::uint32_t rank_class, OpIndex op) {
  if ((*views_[rank_class].operations)[op].kind == OpKind::Compute) busy_.ended(rank_class);
  finish(rank_class, op);
}

void Replay::finish(std::uint32_t rank_class, OpIndex op) {
  note(&OpTimes::end_s, rank_class, op);
  timeline_.makespan_s = pricing_.now();
  release(rank_class, op);
  for (const OpIndex freed : hosts_.ended(rank_class, op, pricing_.now())) {
    ready_.push(operation_token(rank_class, freed));
  }
  count_finished(1);
}

void Replay::count_finished(std::size_t operations) {
  const bool tell = (finished_ + operations) / kOperationsBetweenProgress >
                    finished_ / kOperationsBetweenProgress;
  finished_ += operations;
  if (tell && input_.progress) {
    input_.progress(static_cast<double>(finished_) / static_cast<double>(operations_));
  }
}

template <class Visit>
void Replay::for_each_participant(const Rendezvous::Call& group_call, const Visit& visit) const {
  const std::vector<Participant>& participants =
      input_.partition.groups[group_call.group_class].participants;
  for (std::uint32_t participant = 0; participant < participants.size(); ++participant) {
    visit(participants[participant].rank_class,
          rendezvous_.calls(group_call.group_class, participant)[group_call.ordinal]);
  }
}

void Replay::begin_call(const Rendezvous::Call& group_call) {
  // Numbers of calls that have ended are used again: 27 bits of a token hold them.
  auto live_call = static_cast<std::uint32_t>(calls_.size());
  if (free_calls_.empty()) {
    calls_.emplace_back();
  } else {
    live_call = free_calls_.back();
    free_calls_.pop_back();
  }
  std::uint32_t call = kNone;
  // All participants make the same call, so the first one names it.
  for_each_participant(group_call, [&](std::uint32_t rank_class, OpIndex op) {
    note(&OpTimes::start_s, rank_class, op);
    if (call == kNone) call = (*views_[rank_class].operations)[op].payload;
  });
  calls_[live_call] = {.group_call = group_call,
                       .call = call,
                       .phases = &input_.partition.phases[group_call.group_class].at(call)};
  slow(calls_[live_call], 1.0);
  advance_call(live_call);
}

// Runs the call on until a part of it is alive, or it has ended.
void Replay::advance_call(std::uint32_t live_call) {
  while (calls_[live_call].phase < calls_[live_call].phases->size()) {
    if (start_phase(live_call)) return;
    ++calls_[live_call].phase;
    calls_[live_call].latency_passed = false;
  }
  end_call(live_call);
}

// Starts the latency of the phase or, after it, the flows. Returns false when nothing is left that
// takes time.
bool Replay::start_phase(std::uint32_t live_call) {
  LiveCall& call = calls_[live_call];
  const FoldedPhase& phase = (*call.phases)[call.phase];
  if (phase.latency_s > 0.0 && !call.latency_passed) {
    pricing_.start_delay(call_token(live_call, kNone), phase.latency_s);
    return true;
  }
  call.flows_started_s = pricing_.now();
  for (const std::uint32_t flow_class : phase.flows) {
    if (!moves_[flow_class]) continue;
    ++call.flows_left;
    pricing_.start_flow(call_token(live_call, flow_class), flow_class);
  }
  return call.flows_left > 0;
}

void Replay::end_call(std::uint32_t live_call) {
  const Rendezvous::Call group_call = calls_[live_call].group_call;
  free_calls_.push_back(live_call);
  slow(calls_[live_call], -1.0);
  for_each_participant(group_call,
                       [&](std::uint32_t rank_class, OpIndex op) { finish(rank_class, op); });
}

}  // namespace

Timeline replay(const EngineInput& input, Pricing& pricing) { return Replay(input, pricing).run(); }

}  // namespace trainyard
