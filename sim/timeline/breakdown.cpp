#include "sim/timeline/breakdown.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

constexpr std::uint8_t kComputeStream = 0;

TimeShare exposed(GroupKind kind) {
  switch (kind) {
    case GroupKind::Tensor:
      return TimeShare::ExposedTensor;
    case GroupKind::Pipeline:
      return TimeShare::ExposedPipeline;
    case GroupKind::Data:
      return TimeShare::ExposedData;
    case GroupKind::Expert:
      return TimeShare::ExposedExpert;
    case GroupKind::Context:
      return TimeShare::ExposedContext;
    case GroupKind::Host:
      return TimeShare::ExposedHost;
    case GroupKind::Other:
      return TimeShare::ExposedOther;
  }
  return TimeShare::ExposedOther;
}

bool communicates(const Operation& op) {
  return op.kind != OpKind::Compute && op.kind != OpKind::Delay;
}

// Charges the compute stream of one rank class, from the start of the step to its end.
// Every instant is charged to one share, so the shares add up to the makespan. Calls `visit` with
// the intervals in order; neighbours with one share are one interval.
template <class Visit>
class Walk {
 public:
  Walk(const Workload& workload, const Partition& partition, const Timeline& timeline,
       std::size_t rank_class, const Visit& visit)
      : visit_(visit),
        workload_(workload),
        program_(workload.programs.at(partition.ranks.at(rank_class).program)),
        rank_(workload.ranks.at(partition.ranks.at(rank_class).representative)),
        operations_(program_.operations),
        makespan_s_(timeline.makespan_s),
        previous_(program_.operations.size(), kNone) {
    const OpTimes& times = timeline.classes.at(rank_class);
    const std::size_t count = program_.operations.size();
    TY_CHECK(times.ready_s.size() == count && times.start_s.size() == count &&
                 times.end_s.size() == count,
             rank_class, count, times.end_s.size());
    times_ = {times.ready_s.data(), times.start_s.data(), times.end_s.data()};
    last_on_stream_.fill(kNone);
  }

  void run() {
    // charge_gap() reads previous_ for causes only, and these are issued before the operation that
    // waits, so one pass in issue order is enough.
    OpIndex* const previous = previous_.data();
    OpIndex op = 0;
    for (const Operation& operation : operations_) {
      previous[op] = std::exchange(last_on_stream_[operation.stream], op);
      if (operation.stream == kComputeStream) charge_operation(op, operation);
      ++op;
    }
    // The compute stream has no more operations; communication on other streams may still run.
    charge_gap(last_ended(), std::max(cursor_s_, end_of_all_s()));
    push(TimeShare::Idle, cursor_s_, makespan_s_);
    if (open_) visit_(*open_);
  }

 private:
  // Times by operation. Raw pointers, because every operation is read and the lists check each
  // access.
  struct Times {
    const double* ready_s = nullptr;
    const double* start_s = nullptr;
    const double* end_s = nullptr;
  };

  [[nodiscard]] double end_of_all_s() const {
    const OpIndex last = last_ended();
    return last == kNone ? 0.0 : times_.end_s[last];
  }

  // The candidate that ended later; among equals, the one that was issued later.
  [[nodiscard]] OpIndex later(OpIndex a, OpIndex b) const {
    if (a == kNone || b == kNone) return a == kNone ? b : a;
    if (times_.end_s[a] != times_.end_s[b]) return times_.end_s[a] > times_.end_s[b] ? a : b;
    return std::max(a, b);
  }

  [[nodiscard]] OpIndex last_ended() const {
    return std::accumulate(last_on_stream_.begin(), last_on_stream_.end(), OpIndex{kNone},
                           [this](OpIndex a, OpIndex b) { return later(a, b); });
  }

  // The last to end among the operation before it on its stream and its dependencies.
  [[nodiscard]] OpIndex waited_for(OpIndex op) const {
    OpIndex cause = previous_[op];
    for (const OpIndex other : program_.dependencies_of(op)) cause = later(cause, other);
    return cause;
  }

  // The share of the time between start and end of an operation.
  [[nodiscard]] TimeShare running_share(const Operation& operation) const {
    const bool delays = operation.kind == OpKind::Delay;
    if (delays && operation.work != WorkClass::Optimizer) return TimeShare::Host;
    if (!communicates(operation)) {
      return operation.work == WorkClass::Optimizer ? TimeShare::Optimizer : TimeShare::Compute;
    }
    return exposed(group_kind(operation));
  }

  [[nodiscard]] GroupKind group_kind(const Operation& operation) const {
    return workload_.groups.at(rank_.slots.at(operation.slot).group).kind;
  }

  // The share of the time between ready and start, which only communication has. Bubbles belong to
  // pipelines alone: an operation that waits for the keys of a context rank waits for a late
  // member.
  [[nodiscard]] TimeShare ready_share(const Operation& operation) const {
    switch (operation.kind) {
      case OpKind::Recv:
        return group_kind(operation) == GroupKind::Pipeline ? TimeShare::Bubble
                                                            : TimeShare::Waiting;
      case OpKind::Collective:
      case OpKind::Send:
        return TimeShare::Waiting;
      case OpKind::Compute:
      case OpKind::Delay:
        return TimeShare::Host;
    }
    return TimeShare::Host;
  }

  // Charges the time from the cursor to the end of an operation of the compute stream: first the
  // gap before it was ready, then its waiting, then its own time. A part that ends before the
  // cursor is empty.
  void charge_operation(OpIndex op, const Operation& operation) {
    if (times_.ready_s[op] > cursor_s_) charge_gap(waited_for(op), times_.ready_s[op]);
    if (times_.start_s[op] > cursor_s_) push(ready_share(operation), cursor_s_, times_.start_s[op]);
    if (times_.end_s[op] > cursor_s_) push(running_share(operation), cursor_s_, times_.end_s[op]);
  }

  // Charges [cursor, until], during which the compute stream waited for `cause` and, before that
  // was ready, for the operation that `cause` waited for. The intervals are found from the back, so
  // they are written in reverse order.
  //
  // Example: the stream is free from 10 to 20 s and waited for an all-reduce that was ready at 11,
  // started at 12 and ended at 18 s. The time from 18 to 20 s is host, 12 to 18 exposed, 11 to 12
  // waiting, and 10 to 11 belongs to the operation that the all-reduce waited for last, by the same
  // rule.
  void charge_gap(OpIndex cause, double until_s) {
    const double from_s = cursor_s_;
    backwards_.clear();
    const auto charge = [&](TimeShare share, double since_s) {
      const double start_s = std::max(from_s, since_s);
      if (start_s >= until_s) return;
      backwards_.push_back({share, start_s, until_s});
      until_s = start_s;
    };
    // A cause is issued before the operation that waits for it, so the loop ends.
    while (until_s > from_s) {
      if (cause == kNone) {
        charge(TimeShare::Host, from_s);
        break;
      }
      const Operation operation = operations_[cause];
      charge(TimeShare::Host, times_.end_s[cause]);
      charge(running_share(operation), times_.start_s[cause]);
      charge(ready_share(operation), times_.ready_s[cause]);
      cause = waited_for(cause);
    }
    std::for_each(backwards_.rbegin(), backwards_.rend(),
                  [this](const ShareSpan& span) { push(span.share, span.start_s, span.end_s); });
  }

  void push(TimeShare share, double start_s, double end_s) {
    if (end_s <= start_s) return;
    cursor_s_ = end_s;
    if (open_ && open_->share == share) {
      open_->end_s = end_s;
      return;
    }
    if (open_) visit_(*open_);
    open_ = {share, start_s, end_s};
  }

  const Visit& visit_;
  const Workload& workload_;
  const Program& program_;
  const Rank& rank_;
  const OperationList& operations_;
  Times times_;
  double makespan_s_;
  double cursor_s_ = 0.0;
  // By operation visited: the one before it on its stream.
  std::vector<OpIndex> previous_;
  std::array<OpIndex, std::numeric_limits<std::uint8_t>::max() + 1> last_on_stream_{};
  std::optional<ShareSpan> open_;     // the last interval so far
  std::vector<ShareSpan> backwards_;  // intervals of the present gap
};

}  // namespace

std::string_view to_string(TimeShare share) {
  switch (share) {
    case TimeShare::Compute:
      return "compute";
    case TimeShare::Optimizer:
      return "optimizer";
    case TimeShare::ExposedTensor:
      return "exposed_tensor";
    case TimeShare::ExposedPipeline:
      return "exposed_pipeline";
    case TimeShare::ExposedData:
      return "exposed_data";
    case TimeShare::ExposedExpert:
      return "exposed_expert";
    case TimeShare::ExposedContext:
      return "exposed_context";
    case TimeShare::ExposedHost:
      return "exposed_host";
    case TimeShare::ExposedOther:
      return "exposed_other";
    case TimeShare::Waiting:
      return "waiting";
    case TimeShare::Bubble:
      return "bubble";
    case TimeShare::Host:
      return "host";
    case TimeShare::Idle:
      return "idle";
  }
  return "";
}

double Breakdown::total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

std::vector<ShareSpan> breakdown_spans(const Workload& workload, const Partition& partition,
                                       const Timeline& timeline, std::size_t rank_class) {
  std::vector<ShareSpan> spans;
  const auto add = [&](const ShareSpan& span) { spans.push_back(span); };
  Walk(workload, partition, timeline, rank_class, add).run();
  return spans;
}

Breakdown breakdown(const Workload& workload, const Partition& partition, const Timeline& timeline,
                    std::size_t rank_class) {
  Breakdown result;
  const auto add = [&](const ShareSpan& span) {
    result.seconds[static_cast<std::size_t>(span.share)] += span.end_s - span.start_s;
  };
  Walk(workload, partition, timeline, rank_class, add).run();
  return result;
}

std::vector<Breakdown> breakdowns(const Workload& workload, const Partition& partition,
                                  const Timeline& timeline) {
  std::vector<Breakdown> all;
  all.reserve(partition.ranks.size());
  for (std::size_t index = 0; index < partition.ranks.size(); ++index)
    all.push_back(breakdown(workload, partition, timeline, index));
  return all;
}

}  // namespace trainyard
