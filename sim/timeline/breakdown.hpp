// Where the time of a rank goes: every instant of the compute stream is charged to one cause
// (docs/explanation/exposed.md).
//
// An instant is the stream's own work if an operation of it runs. Otherwise it belongs to the
// operation that the next one waits for last. The rule follows the dependency (or the operation
// before it on its stream) that ended last, and splits the gap along that operation's life:
//
//    before ready      the operation that *it* waited for last, by the same rule
//    ready .. start    waiting (a late member), or bubble (a receive from another pipeline stage
//                      that has not sent yet)
//    start .. end      exposed_<kind of group> (communication), host (a delay), its own work
//                      (a kernel on another stream, or an optimizer that the CPU runs)
//    after end         host: everything was there and the CPU had not issued the operation
//
// After the last compute operation, communication that still runs is charged in the same way, and
// the rest of the step is idle. The shares of a class sum to the step time.
//
//    Breakdown b = breakdown(workload, partition, timeline, /*rank_class=*/0);
//    b.of(TimeShare::Bubble);   // seconds
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/fold/fold.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

enum class TimeShare : std::uint8_t {
  Compute,
  Optimizer,
  ExposedTensor,
  ExposedPipeline,
  ExposedData,
  ExposedExpert,
  ExposedContext,
  ExposedHost,
  ExposedOther,
  Waiting,
  Bubble,
  Host,
  Idle
};
inline constexpr std::size_t kTimeShares = 13;
// "exposed_tensor": the keys of the result JSON.
[[nodiscard]] std::string_view to_string(TimeShare share);

struct Breakdown {
  std::array<double, kTimeShares> seconds{};
  [[nodiscard]] double of(TimeShare share) const {
    return seconds[static_cast<std::size_t>(share)];
  }
  [[nodiscard]] double total() const;
};

// An interval of the compute stream that belongs to one share.
struct ShareSpan {
  TimeShare share = TimeShare::Idle;
  double start_s = 0.0;
  double end_s = 0.0;
};

// The intervals of one rank class in order, without holes, from 0 to the makespan. Empty ones are
// left out.
[[nodiscard]] std::vector<ShareSpan> breakdown_spans(const Workload& workload,
                                                     const Partition& partition,
                                                     const Timeline& timeline,
                                                     std::size_t rank_class);

// The sums of the intervals by share.
[[nodiscard]] Breakdown breakdown(const Workload& workload, const Partition& partition,
                                  const Timeline& timeline, std::size_t rank_class);
// The breakdowns of all rank classes, in their order.
[[nodiscard]] std::vector<Breakdown> breakdowns(const Workload& workload,
                                                const Partition& partition,
                                                const Timeline& timeline);

}  // namespace trainyard
