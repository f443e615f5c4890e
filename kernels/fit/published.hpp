// Single measurements from other.json: layouts, back-to-back layers, backward attention, STREAM.
//
//   const Published rows = read_published(directory / "other.json");
//   rows.products;   // matrix products with their layout and what they were measured on
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/workload/kernel.hpp"

namespace trainyard::fit {

struct PublishedProduct {
  std::string gpu;     // as the source names it: "A100-SXM4-80GB"
  std::string source;  // repository
  Gemm gemm;
  double seconds = 0.0;
  bool adds_to_half = false;  // a weight gradient that adds into 16-bit gradients
};

// The products of equally filled experts as a training framework issues them, expert by expert.
struct PublishedExperts {
  std::string gpu;
  GroupedGemm gemm;
  double seconds = 0.0;
  bool adds_to_half = false;
};

// FLOP/s of one call, causal FLOPs counted once.
struct PublishedAttention {
  std::string gpu;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim_qk = 0;
  std::int64_t head_dim_v = 0;
  bool backward = false;
  double flops_rate = 0.0;
};

struct PublishedStream {
  std::string gpu;
  std::string operation;  // scale, triad, ...
  double bytes_rate = 0.0;
};

struct PublishedLaunch {
  std::string gpu;
  double seconds = 0.0;
};

// The fastest product a search over shapes found.
struct PublishedBest {
  std::string gpu;
  Gemm gemm;
  double seconds = 0.0;
};

struct Published {
  std::vector<PublishedProduct> products;
  std::vector<PublishedExperts> experts;
  std::vector<PublishedAttention> attentions;
  std::vector<PublishedStream> streams;
  std::vector<PublishedLaunch> launches;
  std::vector<PublishedBest> bests;
};

[[nodiscard]] Published read_published(const std::filesystem::path& file);

}  // namespace trainyard::fit
