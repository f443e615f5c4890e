// Copies between a GPU and the memory of its CPU, around the layers of one rank.
//
// Two streams, one each way, as PCIe and chip-to-chip links carry both at once. A layer's
// activations leave when its forward has ended, and the layer after the next one waits for that, so
// that at most two layers are on their way; they come back while the layer behind computes its
// backward. Weights come one layer ahead of their use and are dropped after it. Sizes and moments
// are what the memory timeline sees.
//
// A forward of k layers that take F each and whose copies take t lasts k F where t <= F, else
// 2F + (k - 2) t: 8 s and not 4 for k = 4, F = 1 s, t = 3 s (tests/models/lower/offload_test.cpp).
//
//   offload.forward_begins(place);  layer.forward();  offload.forward_ended(place, kept);
//   offload.weights_begin(chunk, unit, next); offload.backward_begins(place);
//   layer.backward(); offload.weights_used();
//
// A group of k layers that is computed again at once reads its weights once more: they come k times
// forward, k times then, and k - 1 times for the backward, as the last layer's stay between the
// two. Shards of weights (ZeRO 3) are fetched by the scheme that gathers them (data_parallel/).
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
  bool fetches_weights = false;  // layer by layer: they are not sharded
  bool far_apart = false;        // what layers keep is small, and may be several layers apart
};

// The optimizer's step on the parameters of one rank.
struct OptimizerOptions {
  std::string name = {};
  StateRecipe state = {};
  bool clips = true;  // it scales gradients as their norm says
  OffloadedOptimizer where = OffloadedOptimizer::None;
  bool weights_on_host = false;
  BytesPerSecond host_bandwidth = {};
};

// One layer of one microbatch.
struct OffloadPlace {
  std::size_t chunk = 0;
  std::int64_t layer = 0;  // within the chunk
  std::size_t unit = 0;    // of the chunk's weights (data_parallel.hpp)
  std::int32_t microbatch = 0;
};

class OffloadLowering {
 public:
  // `weights`: of the rank's chunks. All of it outlives this.
  OffloadLowering(const OffloadOptions& options, const WeightOptions& weight_options,
                  const std::vector<ChunkWeights>& weights, ProgramBuilder& build)
      : options_(options), weight_options_(weight_options), weights_(weights), build_(build) {}

  // Before anything of a forward or backward step of a chunk: asks for what its first layer needs.
  void forward_enters(std::size_t chunk);
  // `first`: the unit whose weights the backward reads first.
  void backward_enters(std::size_t chunk, std::int64_t layers, std::int32_t microbatch,
                       std::optional<std::size_t> first);
  // Before the layer's first kernel, and after its last one with what it keeps for its backward.
  void forward_begins(const OffloadPlace& place);
  void forward_ended(const OffloadPlace& place, std::int64_t kept);
  // Before the kernels of a backward, recomputation included, that read what forward_ended was told
  // of: once for each layer it was told of, from the last to the first.
  void backward_begins(const OffloadPlace& place);
  // Before the kernels that read a unit's weights; those of the one used `next` are asked for.
  void weights_begin(std::size_t chunk, std::size_t unit, std::optional<std::size_t> next);
  // After the last kernel of a layer that read its weights.
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
  std::vector<OpIndex> stores_;                                     // in order
  std::map<std::pair<std::size_t, std::size_t>, OpIndex> fetched_;  // weights on the GPU
  std::pair<std::size_t, std::size_t> in_use_ = {};                 // of which layer
};

// A copy of so many bytes; `after` as for a collective.
OpIndex copy_to_host(ProgramBuilder& build, std::string_view name, std::int64_t bytes,
                     ProgramBuilder::After after);
OpIndex copy_from_host(ProgramBuilder& build, std::string_view name, std::int64_t bytes,
                       ProgramBuilder::After after);

// The optimizer's step on `local` parameters whose state is in host memory, in pieces that pass
// each other: by the CPU (gradients there, new weights back), or by the GPU with two pieces of
// state at a time. `gradient`: bytes of a gradient as it is held.
void offloaded_optimizer(const OptimizerOptions& options, std::int64_t local, std::int64_t gradient,
                         ProgramBuilder& build);

}  // namespace trainyard
