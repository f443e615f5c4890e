// The choices of training that the writers of a layer's blocks read, by idea. They are made once
// for all programs of a step (options.hpp).
#pragma once

#include <cstdint>

#include "models/architecture/architecture.hpp"
#include "models/architecture/recipe.hpp"
#include "models/architecture/settings.hpp"
#include "models/context_shape.hpp"
#include "models/documents.hpp"
#include "models/expert_settings.hpp"
#include "models/streaming_kernels.hpp"
#include "models/trained_weights.hpp"

namespace trainyard {

// Products of linear layers.
struct ProductOptions {
  const Recipe& recipe;
  bool accumulates = false;  // those of weight gradients add to what there is, in fp32
  AdapterSet adapters = {};
  TrainedWeights trained = {};
};

// Collectives of the tensor group.
struct TensorOptions {
  const Recipe& recipe;
  const CollectiveChoice& collectives;
  std::int64_t hidden = 0;
  bool overlaps = true;    // an input gradient is reduced while its weight gradient is computed
  bool in_pieces = false;  // Parallelism::chunked_tensor
  bool keeps_gathered = false;  // StreamingKernels::keeps_gathered
};

// Attention among ranks that share a sequence.
struct ContextOptions {
  const CollectiveChoice& collectives;
  std::int64_t ranks = 1;
  ContextShape shape = {};
  ContextExchange exchange = ContextExchange::Ring;
  ContextSplit split = ContextSplit::Zigzag;
};

struct AttentionOptions {
  AttentionKind kind = AttentionKind::Flash;
  DataType fused_dtype = DataType::Bf16;  // of the products inside a fused core
  DocumentDraw microbatch;
  ContextOptions context;
};

struct ExpertOptions {
  const ExpertSettings& settings;
  const CollectiveChoice& collectives;
  std::int64_t places = 1;  // ranks that the experts are divided over
  std::int64_t tensor = 1;  // ranks that share an expert
  bool products_in_8_bits = false;
};

struct LayerOptions {
  const Architecture& architecture;
  const StreamingKernels& streaming;
  ProductOptions products;
  TensorOptions tensor;
  AttentionOptions attention;
  ExpertOptions experts;
  RecomputeModules again = {};  // what a layer's backward runs again: none but under Selective
  // A layer that is computed again as a whole leaves its last product out.
  bool stops_early = false;
};

}  // namespace trainyard
