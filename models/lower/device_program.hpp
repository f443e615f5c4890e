// The program of one device of a replica whose model is split by hand, operator by operator
// (operator_devices.hpp): its segments, microbatch after microbatch forward and backward, and what
// it sends to and receives from the other devices in between.
//
//   DeviceLowering lowering(options, split, {.device = 1}, interner);
//   workload.programs.push_back(lowering.lower());
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/lower/data_parallel/data_parallel.hpp"
#include "models/lower/ends.hpp"
#include "models/lower/layer.hpp"
#include "models/lower/layer_memory.hpp"
#include "models/lower/messages.hpp"
#include "models/lower/options.hpp"
#include "models/operator_devices.hpp"

namespace trainyard {

struct DevicePlace {
  std::int64_t device = 0;
  const ExpertRouting* routing = nullptr;  // of a model with experts
};

class DeviceLowering {
 public:
  // `options` and `split` outlive the lowering.
  DeviceLowering(const LoweringOptions& options, const OperatorSplit& split,
                 const DevicePlace& place, Interner& interner);

  [[nodiscard]] Program lower();

 private:
  [[nodiscard]] bool mine(std::size_t segment) const;
  void hold_memory();
  void forward(std::int32_t microbatch);
  void backward(std::int32_t microbatch);
  void forward_segment(std::size_t segment, const UnitPlace& place);
  void backward_segment(std::size_t segment, const UnitBackward& step);
  std::vector<ReadyGradient> segment_gradients(const Segment& segment);
  // What crosses before a segment's forward, or before its backward on the way back.
  void exchange_forward(std::size_t segment);
  void exchange_backward(std::size_t segment);
  void send(const Transfer& transfer, Pass pass, OpIndex after);
  void receive(const Transfer& transfer, Pass pass);
  void sum_gradients(std::size_t segment);
  [[nodiscard]] std::int64_t bytes_of(const Transfer& transfer) const;
  [[nodiscard]] LayerMemory memory_of(const Segment& segment) const;
  // Of the residual stream, held where no norm keeps it.
  [[nodiscard]] std::int64_t borrowed_stream(const Segment& segment) const;

  const LoweringOptions& options_;
  const OperatorSplit& split_;
  const std::int64_t device_;
  const StepShape shape_;
  ProgramBuilder build_;
  LayerLowering layer_;
  ModelEnds ends_;
  PeerMessages peers_;
  const std::vector<ChunkWeights> weights_;  // one
  const StageParameters parameters_;
  std::unique_ptr<DataParallel> replicas_;
  UnitGradients gradients_;
  std::vector<OpIndex> forward_end_;  // by segment, of those written so far
  std::vector<OpIndex> backward_end_;
};

// The whole step: one program for each device, replicas alike. REQUIRES: the plan's rules have
// passed operator_split and the scenario's checks.
[[nodiscard]] Workload operator_step(const TrainingPlan& plan);

}  // namespace trainyard
