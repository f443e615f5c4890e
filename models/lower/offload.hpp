// Offload: copies between a GPU and the memory of its CPU, around the layers of one rank.
//
// There are two copy streams, one for each direction, because PCIe and chip-to-chip links carry
// both directions at once. The activations of a layer are stored when its forward has ended. The
// forward of the layer after the next one waits for that store, so that at most two stores are
// under way. Activations are fetched during the backward of the layer that comes after theirs in
// the model. Weights are fetched one layer ahead of their use and freed after it. Every copy
// allocates and releases its bytes, so that the memory timeline shows it.
//
// A forward of k layers that take F each and whose copies take t lasts k F if t <= F, else
// 2F + (k - 2) t: 8 s instead of 4 for k = 4, F = 1 s, t = 3 s
// (tests/models/lower/offload_test.cpp).
//
//    offload.forward_begins(place);
//    layer.forward({.kept = kept});
//    offload.forward_ended(place, kept);
//
//    offload.weights_begin(place.chunk, place.unit, next);   // prefetches the weights of `next`
//    offload.backward_begins(place);
//    layer.backward(BackwardPart::Full, {.freed = kept});
//    offload.weights_used();
//
// A group of k layers that are recomputed together reads its weights three times: there are k
// fetches for the forward, k for the recomputation and k - 1 for the backward, since the weights of
// the last layer stay from its recomputation to its backward. Shards of weights (ZeRO 3) are
// fetched by the scheme that gathers them (data_parallel/).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture/memory.hpp"
#include "models/lower/data_parallel/chunk_weights.hpp"
#include "models/lower/program_builder.hpp"
#include "models/plan.hpp"

namespace trainyard {

struct OffloadOptions {
  OffloadSettings settings = {};
  bool fetches_weights = false;  // weights are not sharded, and are fetched layer by layer
  // Full recomputation: checkpoints are small and may be several layers apart.
  bool small_checkpoints = false;
};

// The optimizer step on the parameters of one rank.
struct OptimizerOptions {
  std::string name = {};
  StateRecipe state = {};
  bool clips = true;  // gradients are scaled by their norm
  OffloadedOptimizer where = OffloadedOptimizer::None;
  BytesPerSecond host_bandwidth = {};
};

// The parameters that one rank's optimizer updates, and those of them whose weights are in host
// memory.
struct UpdatedParameters {
  std::int64_t all = 0;
  std::int64_t on_host = 0;
};

// One layer of one microbatch.
struct OffloadedLayer {
  std::size_t chunk = 0;
  std::int64_t layer = 0;  // within the chunk
  std::size_t unit = 0;    // of the chunk's weights (WeightUnit in chunk_weights.hpp)
  std::int32_t microbatch = 0;
};

class OffloadLowering {
 public:
  // `weights`: by chunk of the rank. All arguments outlive the object.
  OffloadLowering(const OffloadOptions& options, const WeightOptions& weight_options,
                  const std::vector<ChunkWeights>& weights, ProgramBuilder& build)
      : options_(options), weight_options_(weight_options), weights_(weights), build_(build) {}

  // Called before all other operations of a forward or backward step of a chunk. They fetch the
  // data that its first layer needs. `first`: the unit whose weights the backward reads first.
  void forward_enters(std::size_t chunk);
  void backward_enters(std::size_t chunk, std::int64_t layers, std::int32_t microbatch,
                       std::optional<std::size_t> first);
  // Called before the first kernel of a layer, and after its last one. `kept`: bytes that the layer
  // keeps for its backward.
  void forward_begins(const OffloadedLayer& place);
  void forward_ended(const OffloadedLayer& place, std::int64_t kept);
  // Called before the kernels of a backward or recomputation that read the bytes which
  // forward_ended stored: once for each of those layers, from the last to the first.
  void backward_begins(const OffloadedLayer& place);
  // Called before the kernels that read the weights of a unit. Prefetches the weights of `next`,
  // the unit that is used after it.
  void weights_begin(std::size_t chunk, std::size_t unit, std::optional<std::size_t> next);
  // Called after the last kernel of a layer that reads its weights.
  void weights_used();

 private:
  struct Stored {
    std::int64_t layer = 0;
    std::int64_t bytes = 0;
    OpIndex store = kNone;
    OpIndex fetch = kNone;
  };
  using Held = std::vector<Stored>;  // of one chunk and microbatch, in forward order

  void fetch(Stored& stored);
  void fetch_ahead(Held& held, std::int64_t layer);
  void fetch_weights(std::size_t chunk, std::size_t unit);

  const OffloadOptions& options_;
  const WeightOptions& weight_options_;
  const std::vector<ChunkWeights>& weights_;
  ProgramBuilder& build_;
  std::map<std::pair<std::size_t, std::int32_t>, Held> held_;
  std::vector<OpIndex> stores_;  // in order
  // Weights on the GPU by chunk and unit, with the operation that fetches them; in_use_ is the key
  // of the unit whose kernels are being written.
  std::map<std::pair<std::size_t, std::size_t>, OpIndex> fetched_;
  std::pair<std::size_t, std::size_t> in_use_ = {};
};

// Write a copy of `bytes` bytes; `after` as in ProgramBuilder::collective.
OpIndex copy_to_host(ProgramBuilder& build, std::string_view name, std::int64_t bytes,
                     ProgramBuilder::After after);
OpIndex copy_from_host(ProgramBuilder& build, std::string_view name, std::int64_t bytes,
                       ProgramBuilder::After after);

// Writes the optimizer step on parameters whose state or weights are in host memory, as a pipeline
// of pieces. Either the CPU runs the step: gradients are copied to the host, and new weights back
// unless they stay there. Or the GPU does: state in host memory comes and goes with at most two
// pieces on the GPU at a time, and new weights are stored where they belong. `gradient`: bytes of
// one gradient as it is held.
void offloaded_optimizer(const OptimizerOptions& options, const UpdatedParameters& parameters,
                         std::int64_t gradient, ProgramBuilder& build);

}  // namespace trainyard
