// Writes one Program, operation by operation, as a host issues kernels to CUDA streams.
//
// Operations on one stream run one after the other. `wait_for` adds an operation of another stream
// that the next compute operation waits for, as cudaStreamWaitEvent does. Communication operations
// get the operations that they wait for in `after`.
//
//    Interner interner(workload);
//    ProgramBuilder build(interner, "stage 0", 0);
//    OpIndex gemm = build.compute("qkv_gemm", Gemm{.m = 8192, .n = 1280, .k = 8192});
//    OpIndex gather = build.collective("all_gather", Stream::Tensor, Slot::Tensor, call, {gemm});
//    build.wait_for(gather);
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/lower/program_content.hpp"
#include "models/lower/step_shape.hpp"
#include "models/plan.hpp"
#include "models/rank_groups.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// ---- names, kernels and calls of all programs of a workload, each stored once

// Key of a call that is expensive to construct: numbers such as the layer and the direction. All
// such calls of a workload must give each number the same meaning.
using CallKey = std::array<std::int64_t, 5>;

class Interner {
 public:
  explicit Interner(Workload& workload) : workload_(workload) {}
  [[nodiscard]] std::uint16_t name(std::string_view text);
  [[nodiscard]] std::uint32_t kernel(const Kernel& kernel);
  [[nodiscard]] std::uint32_t call(const Call& call);
  // Calls `make` only for the first use of the key.
  [[nodiscard]] std::uint32_t call(const CallKey& key, const std::function<Call()>& make);
  [[nodiscard]] std::uint32_t delay(Seconds time);
  // Records the scenario field that selected the algorithm for calls of this operation through this
  // slot. REQUIRES: all such calls of a workload have the same field.
  void note_choice(std::uint16_t slot, CollectiveOp op, const std::string& field);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  Workload& workload_;
  std::unordered_map<std::string, std::uint16_t, TextHash, std::equal_to<>> names_;
  std::map<Kernel, std::uint32_t> kernels_;
  std::map<Call, std::uint32_t> calls_;
  std::map<CallKey, std::uint32_t> calls_by_key_;
};

// ---- one program

// The part of the step, the microbatch, the layer and the class of work of the next operations.
// -1: none.
struct Tags {
  StepPart part = StepPart::Other;
  std::int32_t microbatch = -1;
  std::int32_t layer = -1;
  WorkClass work = WorkClass::Compute;
};

struct ProgramSize {
  std::size_t operations = 0;  // each block counted once
  std::size_t dependencies = 0;
  std::size_t effects = 0;
};
[[nodiscard]] ProgramSize size_of(const Program& program);

class ProgramBuilder {
 public:
  using After = std::initializer_list<OpIndex>;

  ProgramBuilder(Interner& interner, std::string name, std::uint32_t stage);

  // Reserves memory for a program of about this size.
  void reserve(const ProgramSize& size);

  void tag(const Tags& tags) { tags_ = tags; }
  [[nodiscard]] const Tags& tags() const { return tags_; }

  // The next compute operation also waits for `op`. kNone is ignored.
  void wait_for(OpIndex op);
  OpIndex compute(std::string_view name, const Kernel& kernel);
  // If `after` contains the last compute operation, the communication waits for the current state
  // of the compute stream: it also starts after all operations that the next compute operation
  // waits for, as if it waited for an event that is recorded there now.
  OpIndex collective(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
                     After after);
  OpIndex collective(std::string_view name, Stream stream, Slot slot, const CallKey& key,
                     const std::function<ChosenCall()>& make, After after);
  // Work of the CPU that takes `time`.
  OpIndex delay(std::string_view name, Stream stream, Seconds time, After after);
  OpIndex send(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
               After after);
  OpIndex recv(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
               After after);

  // The number of the next operation.
  [[nodiscard]] OpIndex next() const { return operations_.next(); }
  // The last compute operation so far; kNone if there is none.
  [[nodiscard]] OpIndex last_compute() const { return operations_.last_on_streams()[0]; }

  [[nodiscard]] MemoryEffects& memory() { return memory_; }
  [[nodiscard]] OperationBlocks& operations() { return operations_; }

  // Returns the finished program. The builder must not be used afterwards.
  [[nodiscard]] Program take();

 private:
  OpIndex append(OpKind kind, Stream stream, std::string_view name, Slot slot,
                 std::uint32_t payload, std::span<const OpIndex> after);
  [[nodiscard]] std::vector<OpIndex> with_waits(After after) const;

  Interner& interner_;
  std::string name_;
  std::uint32_t stage_;
  Tags tags_;
  OperationBlocks operations_;
  MemoryEffects memory_;
};

}  // namespace trainyard
