// Measured tables as read for the fit: one sample per shape, the median over backends.
//
//   auto samples = read_gemm_samples(directory / "gemm/h100_sxm.csv", "bf16");
//
// The tables are comma-separated with a header line; they are not part of the project.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/base/csv.hpp"

namespace trainyard::fit {

struct Sample {
  std::array<std::int64_t, 3> shape{};  // m, n, k of a product
  double seconds = 0.0;
  double beside_s = 0.0;  // what the row timed besides
  // Of a time predicted for the product: what it makes of the row, over what the row says.
  [[nodiscard]] double ratio(double predicted_s) const {
    return (predicted_s + beside_s) / (seconds + beside_s);
  }
};

// The time in a backend's fp8 rows beside the product (quantisation.hpp).
struct Quantisation {
  double constant_s = 0.0;
  double element_s = 0.0;
  std::size_t lines = 0;  // pairs of (m, k) that it was read off
  [[nodiscard]] double seconds(std::int64_t m, std::int64_t k) const {
    return constant_s + element_s * static_cast<double>(m) * static_cast<double>(k);
  }
};
using Quantisations = std::map<std::string, Quantisation>;  // by backend

struct GemmSamples {
  std::vector<Sample> medians;  // over the backends, by ascending shape
  std::size_t rows = 0;
  Quantisations taken_out;   // of each backend's fp8 rows
  std::size_t left_out = 0;  // shapes that are quantisation more than product
};

struct AttentionSample {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  double seconds = 0.0;
};

struct AttentionSamples {
  std::vector<AttentionSample> medians;
  std::size_t rows = 0;
};

// Of fp8, products alone (quantisation.hpp): means over the backends, weighted as times of equal
// relative error are; where the product is less than a third of the time the shape is left out.
[[nodiscard]] GemmSamples read_gemm_samples(const std::filesystem::path& file,
                                            const std::string& dtype);
// With quantisations that were found elsewhere, so that rows to be judged tell nothing of them.
[[nodiscard]] GemmSamples read_gemm_samples(const std::filesystem::path& file,
                                            const std::string& dtype,
                                            const Quantisations& taken_out);
// Full causal attention in bf16 by one backend, keys and values cached in bf16.
[[nodiscard]] AttentionSamples read_attention_samples(const std::filesystem::path& file,
                                                      const std::string& backend);

// Median; the geometric mean of the middle two of an even number. REQUIRES: not empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace trainyard::fit
