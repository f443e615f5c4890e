#include "sim/engine/steady_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>
#include <span>
#include <utility>

#include "sim/workload/program_templates.hpp"

namespace trainyard {
namespace {

// ---- the periodic part of a program

// Instances [begin, end) of a list: each equals the one a period later, while that is below `end`.
struct Repetition {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t period = 0;       // instances
  std::int32_t microbatches = 0;  // per period
  [[nodiscard]] std::uint32_t times() const { return (end - begin) / period; }
};

// Whether instance `a` and the later instance `b` have one block, and inputs that are either the
// same operation or as far away.
bool repeats(const OperationList& list, const Instance& a, const Instance& b) {
  if (a.block != b.block) return false;
  const std::span<const OpIndex> of_a = list.bindings_of(a);
  const std::span<const OpIndex> of_b = list.bindings_of(b);
  return std::ranges::equal(of_a, of_b, [&](OpIndex input, OpIndex later) {
    return later == input || later - input == b.first - a.first;
  });
}

// Finds the part of a program that repeats, and the shortest period of it.
//
// The search begins in the middle of the list, where a pipeline is full, and tries periods of few
// instances first. A period counts if it occurs at least twice there. The repetition then grows to
// both ends, up to the instances that belong to filling and draining.
//
// Example: the first of four stages runs F F F, then F B for most of the step, then B B B. The
// period is F B, of one microbatch. An interleaved schedule repeats a whole round of microbatches
// over all chunks of the rank.
std::optional<Repetition> repetition_of(const OperationList& list) {
  const std::span<const Instance> all = list.instances();
  const auto count = static_cast<std::uint32_t>(all.size());
  const std::uint32_t middle = count / 2;
  for (std::uint32_t period = 1; period <= count / 8; ++period) {
    const std::int32_t microbatches = all[middle + period].microbatch - all[middle].microbatch;
    const auto same = [&](std::uint32_t i) {
      return all[i + period].microbatch - all[i].microbatch == microbatches &&
             repeats(list, all[i], all[i + period]);
    };
    std::uint32_t end = middle;
    while (end + period < count && same(end)) ++end;
    if (end - middle < period) continue;
    std::uint32_t begin = middle;
    while (begin > 0 && same(begin - 1)) --begin;
    // A shorter repetition is one within a round of microbatches.
    const bool most = 2 * (end + period - begin) > count;
    if (most && microbatches > 0) return Repetition{begin, end + period, period, microbatches};
  }
  return std::nullopt;
}

OpIndex first_operation(const OperationList& list, std::uint32_t instance) {
  return instance < list.instances().size() ? list.instances()[instance].first
                                            : static_cast<OpIndex>(list.size());
}

// Leaves out the last `left_out` periods of the repetition. The operations behind it get lower
// numbers. An input of theirs that lies in the repetition is lowered by as much, so it is as far
// away as before; one from before the repetition stays. Returns nothing where an input lies so near
// to the beginning that it would leave the repetition.
std::optional<OperationList> without(const OperationList& list, const Repetition& of,
                                     std::uint32_t left_out) {
  const std::span<const Instance> all = list.instances();
  const std::uint32_t cut = of.end - left_out * of.period;
  const OpIndex repeated = all[of.begin].first;
  const OpIndex dropped = first_operation(list, of.end) - all[cut].first;
  std::vector<Instance> instances(all.begin(), all.begin() + cut);
  std::vector<OpIndex> bindings(list.bindings().begin(), list.bindings().end());
  for (const Instance& instance : all.subspan(of.end)) {
    Instance moved = instance;
    moved.first -= dropped;
    for (std::uint32_t i = 0; i < list.block_of(instance).inputs; ++i) {
      OpIndex& input = bindings[instance.bindings + i];
      if (input < repeated) continue;
      if (input < repeated + dropped) return std::nullopt;
      input -= dropped;
    }
    instances.push_back(moved);
  }
  return list.rearranged(std::move(instances), std::move(bindings));
}

// ---- the shortened workload

// The repetitions of all programs that ranks run, with periods of equally many microbatches: where
// one program repeats itself every two microbatches and another one every three, the period of both
// is six.
struct Repetitions {
  std::vector<Repetition> of_template;  // by the lowest program of a template; period 0: none runs
  std::int32_t microbatches = 1;        // per period
  std::uint32_t times = std::numeric_limits<std::uint32_t>::max();  // of the shortest
};

std::optional<Repetitions> repetitions(const Workload& workload,
                                       const std::vector<std::uint32_t>& templates) {
  std::vector<bool> runs(workload.programs.size(), false);
  for (const Rank& rank : workload.ranks) runs[templates[rank.program]] = true;
  Repetitions all{.of_template = std::vector<Repetition>(runs.size())};
  for (std::size_t program = 0; program < runs.size(); ++program) {
    if (!runs[program]) continue;
    const auto found = repetition_of(workload.programs[program].operations);
    if (!found) return std::nullopt;
    all.of_template[program] = *found;
    all.microbatches = std::lcm(all.microbatches, found->microbatches);
  }
  for (Repetition& of : all.of_template) {
    if (of.period == 0) continue;
    of.period *= static_cast<std::uint32_t>(all.microbatches / of.microbatches);
    all.times = std::min(all.times, of.times());
  }
  return all;
}

// Periods to play: the pipeline fills and drains, and settles in between. A full pipeline holds
// about one microbatch per stage, so the number of periods grows with the number of stages.
std::uint32_t periods_to_play(const Workload& workload, std::int32_t microbatches) {
  std::uint32_t stages = 1;
  for (const Program& program : workload.programs) stages = std::max(stages, program.stage + 1);
  const auto per_period = static_cast<std::uint32_t>(microbatches);
  constexpr std::uint32_t kPipelinesFull = 4;
  constexpr std::uint32_t kPeriodsAtLeast = 10;
  return kPeriodsAtLeast + kPipelinesFull * ((stages + per_period - 1) / per_period);
}

}  // namespace

// Finds the repetition of every program, gives all of them periods of equally many microbatches,
// and leaves out equally many periods in each. Programs of different stages therefore still match
// call by call.
std::unique_ptr<ShortStep> shortened(const Workload& workload) {
  const std::vector<std::uint32_t> templates = program_templates(workload.programs);
  const auto found = repetitions(workload, templates);
  if (!found || workload.ranks.empty()) return nullptr;
  const std::uint32_t play = periods_to_play(workload, found->microbatches);
  // At least half of the periods are left out, or the step is not worth shortening.
  if (found->times < 2 * play) return nullptr;
  const std::uint32_t left_out = found->times - play;
  Workload shorter = workload;
  std::vector<PeriodicPart> parts(workload.programs.size());
  for (std::size_t program = 0; program < parts.size(); ++program) {
    const std::uint32_t first = templates[program];
    const Repetition& of = found->of_template[first];
    if (of.period == 0) continue;
    Program& into = shorter.programs[program];
    // Effects on memory change no time, and these name operations by their numbers in the whole
    // program.
    into.single_effects.clear();
    // The lowest program of a template comes first, so its shortened list exists already.
    if (first != program) {
      into.operations = shorter.programs[first].operations;
      parts[program] = parts[first];
      continue;
    }
    const OperationList& list = workload.programs[program].operations;
    auto made = without(list, of, left_out);
    if (!made) return nullptr;
    into.operations = *std::move(made);
    parts[program] = {
        .begin = first_operation(list, of.begin),
        .end = first_operation(list, of.end - left_out * of.period),
        .period = first_operation(list, of.begin + of.period) - first_operation(list, of.begin)};
  }
  return std::make_unique<ShortStep>(std::move(shorter), std::move(parts), left_out);
}

std::uint64_t operations_left_out(const ShortStep& step, const Partition& partition) {
  std::uint64_t operations = 0;
  for (const RankClass& ranks : partition.ranks)
    operations += std::uint64_t{step.parts[ranks.program].period} * step.left_out;
  return operations;
}

namespace {

// ---- two equal periods in the times of the shortened step

// The run from `from_s` to `middle_s` equals that from there to `until_s`, before any operation
// after the repetition is ready.
struct Period {
  double from_s = 0.0;
  double middle_s = 0.0;
  double until_s = 0.0;
  [[nodiscard]] double seconds() const { return until_s - middle_s; }
};

// Where flows share links, a pipeline approaches its steady state by a constant factor per period.
// Periods are equal when their dates differ by at most this share of the period. The error of the
// step is then at most the same share of the step.
constexpr double kEqual = 1e-10;

constexpr std::array kDates = {&OpTimes::ready_s, &OpTimes::start_s, &OpTimes::end_s};

// Looks for two equal periods [from, middle) and [middle, until) in the times of the shortened
// step.
//
// Up to a certain date the shortened step and the whole one are the same run. The first difference
// is that the shortened step goes on to the operations behind its repetition, or does not go on to
// a further period. Both periods end before that date. They are equal if
//
// - every date of one has a counterpart one period later in the other, and each class has as many
//   dates of each kind in them as a period has operations;
// - whatever is alive at the middle has a counterpart that was ready and started one period
//   earlier;
// - the flows start alike, and none lasts from before the middle to the end.
//
// Both periods then end in the same state, so copies of the last one continue the run (see the
// header).
class SteadyState {
 public:
  SteadyState(const Partition& partition, const ShortStep& step, const Timeline& played)
      : partition_(partition), step_(step), played_(played) {}

  [[nodiscard]] std::optional<Period> find() const {
    const std::optional<Period> period = last_period();
    if (!period) return std::nullopt;
    for (std::size_t rank_class = 0; rank_class < played_.classes.size(); ++rank_class)
      if (!repeats(rank_class, *period)) return std::nullopt;
    if (!flows_repeat(*period)) return std::nullopt;
    return period;
  }

 private:
  [[nodiscard]] const PeriodicPart& part_of(std::size_t rank_class) const {
    return step_.parts[partition_.ranks[rank_class].program];
  }

  // The earliest date at which operations [from, until) of any class are ready. Both ends depend on
  // the class.
  template <class From, class Until>
  [[nodiscard]] double first_ready(const From& from, const Until& until) const {
    double first_s = std::numeric_limits<double>::infinity();
    for (std::size_t rank_class = 0; rank_class < played_.classes.size(); ++rank_class) {
      const std::vector<double>& ready_s = played_.classes[rank_class].ready_s;
      const PeriodicPart& part = part_of(rank_class);
      for (std::size_t op = from(part); op < until(part, ready_s.size()); ++op)
        first_s = std::min(first_s, ready_s[op]);
    }
    return first_s;
  }

  // The time between equal operations of one class, before the first of all classes leaves its
  // repetition.
  [[nodiscard]] double seconds_of_a_period(double after_s) const {
    const PeriodicPart& part = part_of(0);
    const std::vector<double>& ready_s = played_.classes.front().ready_s;
    OpIndex last = part.end - 1;
    while (last > part.begin + part.period && ready_s[last] >= after_s) --last;
    return ready_s[last] - ready_s[last - part.period];
  }

  // The last period before any class meets an operation after its repetition, or misses one that
  // a further period would have.
  // `after_s` is the first date at which a class is ready for an operation behind its repetition.
  // `missing_s` is one period after the first operation of the last period, which is when the whole
  // step goes on to a period that the shortened one does not have.
  [[nodiscard]] std::optional<Period> last_period() const {
    const double after_s = first_ready([](const PeriodicPart& part) { return part.end; },
                                       [](const PeriodicPart&, std::size_t size) { return size; });
    const double seconds = seconds_of_a_period(after_s);
    if (!(seconds > 0.0)) return std::nullopt;
    const double missing_s =
        seconds + first_ready([](const PeriodicPart& part) { return part.end - part.period; },
                              [](const PeriodicPart& part, std::size_t) { return part.end; });
    // A date near a border could lie on different sides of it in the two periods. The borders move
    // back by 1/97 of a period until no date is near.
    constexpr int kBordersToTry = 8;
    for (int border = 1; border <= kBordersToTry; ++border) {
      const double until_s = std::min(after_s, missing_s) - seconds * border / 97.0;
      const Period period{until_s - 2.0 * seconds, until_s - seconds, until_s};
      if (period.from_s <= 0.0) return std::nullopt;
      if (!any_date_at_a_border(period)) return period;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool any_date_at_a_border(const Period& of) const {
    const double near_s = 2.0 * kEqual * of.seconds();
    const auto at_border = [&](double date_s) {
      return std::abs(date_s - of.from_s) <= near_s || std::abs(date_s - of.middle_s) <= near_s ||
             std::abs(date_s - of.until_s) <= near_s;
    };
    return std::ranges::any_of(played_.classes, [&](const OpTimes& times) {
      return std::ranges::any_of(
          kDates, [&](auto what) { return std::ranges::any_of(times.*what, at_border); });
    });
  }

  [[nodiscard]] static bool a_period_apart(double earlier_s, double later_s, const Period& in) {
    return std::abs(later_s - earlier_s - in.seconds()) <= kEqual * in.seconds();
  }

  // Whether every date of the class in one half has an equal one in the other half, and nothing
  // that is alive in the middle lasts until the end.
  [[nodiscard]] bool repeats(std::size_t rank_class, const Period& in) const {
    const OpTimes& times = played_.classes[rank_class];
    return std::ranges::all_of(kDates,
                               [&](auto what) { return repeat(times.*what, rank_class, in); }) &&
           std::ranges::all_of(
               std::views::iota(OpIndex{0}, static_cast<OpIndex>(times.end_s.size())),
               [&](OpIndex op) { return was_the_same(op, times, rank_class, in); });
  }

  // One kind of date of one class: each date in the first half has an equal one a period later, and
  // each half has one date of every operation of a period.
  [[nodiscard]] bool repeat(const std::vector<double>& dates, std::size_t rank_class,
                            const Period& in) const {
    const PeriodicPart& part = part_of(rank_class);
    std::array<OpIndex, 2> found{};  // in the first and in the second half
    for (OpIndex op = 0; op < dates.size(); ++op) {
      if (dates[op] < in.from_s || dates[op] >= in.until_s) continue;
      const bool first = dates[op] < in.middle_s;
      ++found[first ? 0 : 1];
      if (op < part.begin || op >= part.end) return false;
      if (!first) continue;
      if (op + part.period >= part.end || !a_period_apart(dates[op], dates[op + part.period], in))
        return false;
    }
    return found[0] == part.period && found[1] == part.period;
  }

  // An operation that is alive in the middle belongs to the state there. It must not last until the
  // end, and the one a period earlier must have been ready and have started one period earlier.
  // True for an operation that is not alive in the middle.
  [[nodiscard]] bool was_the_same(OpIndex op, const OpTimes& times, std::size_t rank_class,
                                  const Period& in) const {
    const PeriodicPart& part = part_of(rank_class);
    if (!(times.ready_s[op] < in.middle_s && times.end_s[op] >= in.middle_s)) return true;
    if (times.end_s[op] >= in.until_s || op < part.begin + part.period || op >= part.end)
      return false;
    const OpIndex before = op - part.period;
    return a_period_apart(times.ready_s[before], times.ready_s[op], in) &&
           a_period_apart(times.start_s[before], times.start_s[op], in);
  }

  [[nodiscard]] bool flows_repeat(const Period& in) const {
    const auto starts = [&](double date_s) {
      return std::ranges::lower_bound(played_.flows, date_s, {}, &FlowSpan::start_s);
    };
    const std::span<const FlowSpan> before(played_.flows.begin(), starts(in.middle_s));
    if (std::ranges::any_of(before, [&](const FlowSpan& f) { return f.end_s >= in.until_s; }))
      return false;
    return std::ranges::equal(std::span(starts(in.from_s), starts(in.middle_s)),
                              std::span(starts(in.middle_s), starts(in.until_s)),
                              [&](const FlowSpan& a, const FlowSpan& b) {
                                return a.flow_class == b.flow_class &&
                                       a_period_apart(a.start_s, b.start_s, in);
                              });
  }

  const Partition& partition_;
  const ShortStep& step_;
  const Timeline& played_;
};

// ---- the times of the whole step

// Each date of the last period holds for the operations one, two and more periods later too. Dates
// from `until` on belong to operations with higher numbers in the whole program.
//
// Example: the period has 5 operations and 1 s, two periods are left out, and operations 40 to 44
// have their dates in the last period. In the whole program operations 45 to 49 have them 1 s later
// and 50 to 54 have them 2 s later. Operation 45 of the shortened program is operation 55 of the
// whole one, 2 s later than played.
//
// Each kind of date is treated by itself: an operation that is alive at `until` starts in the last
// period and ends behind it.
std::vector<double> lengthened(const std::vector<double>& dates, std::size_t size, OpIndex period,
                               const Period& in, std::uint32_t left_out) {
  std::vector<double> result(size, std::numeric_limits<double>::quiet_NaN());
  const double later_s = in.seconds() * left_out;
  std::vector<OpIndex> last;
  for (OpIndex op = 0; op < dates.size(); ++op) {
    if (dates[op] < in.until_s) {
      result[op] = dates[op];
      if (dates[op] >= in.middle_s) last.push_back(op);
    } else {
      result[op + std::size_t{left_out} * period] = dates[op] + later_s;
    }
  }
  for (std::uint32_t times = 1; times <= left_out; ++times)
    for (const OpIndex op : last)
      result[op + std::size_t{times} * period] = dates[op] + in.seconds() * times;
  return result;
}

// Flows that start before the middle stay, those of the first half are repeated from there on.
std::vector<FlowSpan> lengthened(const std::vector<FlowSpan>& flows, const Period& in,
                                 std::uint32_t left_out) {
  const auto starts = [&](double date_s) {
    return std::ranges::lower_bound(flows, date_s, {}, &FlowSpan::start_s);
  };
  const auto middle = starts(in.middle_s);
  const std::span<const FlowSpan> repeated(starts(in.from_s), middle);
  std::vector<FlowSpan> result(flows.begin(), middle);
  result.reserve(flows.size() + repeated.size() * left_out);
  const auto append = [&](std::span<const FlowSpan> spans, double later_s) {
    for (const FlowSpan& flow : spans)
      result.push_back({flow.flow_class, flow.start_s + later_s, flow.end_s + later_s});
  };
  for (std::uint32_t times = 1; times <= left_out; ++times) append(repeated, in.seconds() * times);
  append(std::span(middle, flows.end()), in.seconds() * left_out);
  return result;
}

// Bytes and time in use of each link class in the first half. Flows come in order of start, so the
// time in use grows from left to right without counting an overlap twice. A flow that started
// before the half adds time but no bytes: its bytes count where it starts.
std::vector<LinkUse> used_within(const Partition& partition, const std::vector<FlowSpan>& flows,
                                 const Period& in) {
  std::vector<LinkUse> result(partition.links.size());
  std::vector<double> busy_until_s(partition.links.size(), in.from_s);
  for (const FlowSpan& flow : flows) {
    if (flow.start_s >= in.middle_s) break;
    if (flow.end_s < in.from_s) continue;
    const FlowClass& of = partition.flows[flow.flow_class];
    const double end_s = std::min(flow.end_s, in.middle_s);
    for (const FlowClass::Weight& weight : of.weights) {
      LinkUse& use = result[weight.link_class];
      if (flow.start_s >= in.from_s) use.bytes += of.payload_bytes * weight.weight;
      double& until_s = busy_until_s[weight.link_class];
      use.busy_s += std::max(0.0, end_s - std::max(flow.start_s, until_s));
      until_s = std::max(until_s, end_s);
    }
  }
  return result;
}

}  // namespace

std::optional<Timeline> lengthened(const Workload& whole, const Partition& partition,
                                   const ShortStep& step, Timeline played) {
  const std::optional<Period> found = SteadyState(partition, step, played).find();
  if (!found) return std::nullopt;
  played.makespan_s += found->seconds() * step.left_out;
  played.counters.repeated = operations_left_out(step, partition);
  played.counters.operations += played.counters.repeated;
  for (std::size_t rank_class = 0; rank_class < played.classes.size(); ++rank_class) {
    const std::uint32_t program = partition.ranks[rank_class].program;
    for (const auto what : kDates) {
      std::vector<double>& dates = played.classes[rank_class].*what;
      dates = lengthened(dates, whole.programs[program].operations.size(),
                         step.parts[program].period, *found, step.left_out);
    }
  }
  const std::vector<LinkUse> more = used_within(partition, played.flows, *found);
  for (std::size_t link = 0; link < more.size(); ++link) {
    played.links[link].bytes += more[link].bytes * step.left_out;
    if (played.links[link].busy_s > 0.0)
      played.links[link].busy_s += more[link].busy_s * step.left_out;
  }
  played.flows = lengthened(played.flows, *found, step.left_out);
  return played;
}

}  // namespace trainyard
