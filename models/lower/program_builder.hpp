// Writes one Program, operation by operation, as a host would issue kernels to CUDA streams.
//
// Operations on one stream follow each other. `wait_for` says beforehand what a compute operation
// must wait for from other streams, as an event wait does. Communication names its inputs with
// `after`.
//
//   Interner interner(workload);
//   ProgramBuilder build(interner, "stage 0", 0);
//   OpIndex gemm = build.compute("qkv_gemm", Gemm{...});
//   OpIndex gather = build.collective("all_gather", Stream::Tensor, Slot::Tensor, call, {gemm});
//   build.wait_for(gather);
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

// The numbers that tell apart the calls of a step that are made by key: layer, direction and the
// like. All such calls of a workload must use the numbers alike.
using CallKey = std::array<std::int64_t, 5>;

class Interner {
 public:
  explicit Interner(Workload& workload) : workload_(workload) {}
  [[nodiscard]] std::uint16_t name(std::string_view text);
  [[nodiscard]] std::uint32_t kernel(const Kernel& kernel);
  [[nodiscard]] std::uint32_t call(const Call& call);
  // For one that takes long to make: the first time that the key comes.
  [[nodiscard]] std::uint32_t call(const CallKey& key, const std::function<Call()>& make);
  [[nodiscard]] std::uint32_t delay(Seconds time);
  // Notes the field that chose the algorithm of an operation's calls through the slot. REQUIRES:
  // one field for all of them.
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

// The step, microbatch, layer and kind of work that the next operations belong to.
struct Tags {
  StepPart part = StepPart::Other;
  std::int32_t microbatch = -1;
  std::int32_t layer = -1;
  WorkClass work = WorkClass::Compute;
};

struct ProgramSize {
  std::size_t operations = 0;  // as written
  std::size_t dependencies = 0;
  std::size_t effects = 0;
};
[[nodiscard]] ProgramSize size_of(const Program& program);

class ProgramBuilder {
 public:
  using After = std::initializer_list<OpIndex>;

  ProgramBuilder(Interner& interner, std::string name, std::uint32_t stage);

  // Makes room for a program of about that size.
  void reserve(const ProgramSize& size);

  void tag(const Tags& tags) { tags_ = tags; }
  [[nodiscard]] const Tags& tags() const { return tags_; }

  // The next compute operation waits for `op` too; kNone is ignored.
  void wait_for(OpIndex op);
  OpIndex compute(std::string_view name, const Kernel& kernel);
  // The last compute operation as an input stands for the compute stream as it is now: the
  // communication then also starts after all that the next compute operation waits for, as after an
  // event recorded there.
  OpIndex collective(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
                     After after);
  OpIndex collective(std::string_view name, Stream stream, Slot slot, const CallKey& key,
                     const std::function<ChosenCall()>& make, After after);
  // Work of the CPU, which takes the time given.
  OpIndex delay(std::string_view name, Stream stream, Seconds time, After after);
  OpIndex send(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
               After after);
  OpIndex recv(std::string_view name, Stream stream, Slot slot, const ChosenCall& call,
               After after);

  // The number the next operation will have.
  [[nodiscard]] OpIndex next() const { return operations_.next(); }
  // The last compute operation so far, kNone at the start.
  [[nodiscard]] OpIndex last_compute() const { return operations_.last_on_streams()[0]; }

  [[nodiscard]] MemoryEffects& memory() { return memory_; }
  [[nodiscard]] OperationBlocks& operations() { return operations_; }

  // The finished program; the builder is spent.
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
