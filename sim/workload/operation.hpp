// One operation of a program: what is done, on which stream, in which microbatch.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

namespace trainyard {

using OpIndex = std::uint32_t;
inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

enum class OpKind : std::uint8_t { Compute, Collective, Send, Recv, Delay };
[[nodiscard]] std::string_view to_string(OpKind kind);
[[nodiscard]] constexpr bool communicates(OpKind kind) {
  return kind == OpKind::Collective || kind == OpKind::Send || kind == OpKind::Recv;
}

// What a compute operation counts as in the breakdown.
enum class WorkClass : std::uint8_t { Compute, Optimizer };

// Which part of the step an operation belongs to; colours traces and reports.
enum class StepPart : std::uint8_t {
  Forward,
  Backward,
  Recompute,
  WeightGrad,
  GradSync,
  ParamSync,
  Optimizer,
  Other
};
[[nodiscard]] std::string_view to_string(StepPart part);

struct Operation {
  OpKind kind = OpKind::Compute;
  std::uint8_t stream = 0;  // index into Workload::streams; stream 0 is the compute stream
  WorkClass work = WorkClass::Compute;
  StepPart part = StepPart::Other;
  std::uint16_t name = 0;  // index into Workload::names
  std::uint16_t slot = 0;  // communication: which group of the rank
  // Compute: kernel (Program::kernel_of); Collective, Send, Recv: call; Delay: delay
  std::uint32_t payload = 0;
  std::int32_t microbatch = -1;  // tags for traces and reports; -1: none
  std::int32_t layer = -1;
  std::uint32_t dependencies_begin = 0;  // range in OperationList::Content
  std::uint32_t dependencies_end = 0;
  std::uint32_t effects_begin = 0;  // range in Program::effects
  std::uint32_t effects_end = 0;
  bool operator==(const Operation&) const = default;
};

}  // namespace trainyard
