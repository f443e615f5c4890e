// Measured tables as read for the fit: one sample per shape, the median over backends. Errors say
// how far predictions lie from them.
//
//   auto samples = read_gemm_samples(directory / "gemm/h100_sxm.csv", "bf16");
//
// The tables are comma-separated with a header line; they are not part of the project.
//
// An fp8 row of the tables times more than its product: it also makes x[m, k] fp8, by the same
// backend, and that part is taken out.
//
//   const auto found = quantisations(table);            // by backend
//   row_seconds - found.at("sglang").seconds(m, k);      // the product alone
//
// Quantising does not depend on n. At one m and k, the line through a backend's times over n meets
// n = 0 where everything but the product's own work is left; fp8's line meets it higher than bf16's
// by the quantisation. Over (m, k) the difference is a constant and a time per element of x: on the
// H100 2.7 us and 1.62 ps (sglang), 9.9 us and 2.35 ps (trtllm), which at 3.35 TB/s are 5.4 and 7.9
// bytes: x read twice, for its largest value and to be divided by it, and written once. A training
// step names these casts as kernels of their own, so a product must not hold them too.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sim/base/csv.hpp"

namespace trainyard::fit {

// Relative errors |predicted / measured - 1|, and the median of the signed ones.
struct Errors {
  std::size_t count = 0;
  double median = 0.0;
  double p95 = 0.0;
  double bias = 0.0;
};

struct HoldOut {
  double share = 0.2;
  std::uint64_t seed = 1;
};

// From predicted / measured.
[[nodiscard]] Errors errors_of(std::vector<double> ratios);
// "median 2.1 %, p95 9.8 %, bias +0.3 % (1053 shapes)".
[[nodiscard]] std::string to_text(const Errors& errors);

// Which of `count` samples are left out: a fixed draw for a seed, on every machine.
[[nodiscard]] std::vector<bool> draw(std::size_t count, const HoldOut& hold_out);

struct Sample {
  std::array<std::int64_t, 3> shape{};  // m, n, k of a product
  double seconds = 0.0;
  double beside_s = 0.0;  // what the row timed besides
  // Predicted over measured time of the whole row, from a time predicted for the product.
  [[nodiscard]] double ratio(double predicted_s) const {
    return (predicted_s + beside_s) / (seconds + beside_s);
  }
};

// The time in a backend's fp8 rows beside the product (see above).
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

// The products of a table. Of fp8 rows they are products alone (see above): means over the
// backends, weighted as times of equal relative error are; where the product is less than a third
// of the time the shape is left out.
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

// Each backend's quantisation, where it has fp8 and bf16 rows at enough (m, k). Rows of the shapes
// in `left_out` are not read.
[[nodiscard]] Quantisations quantisations(
    const CsvTable& table, const std::set<std::array<std::int64_t, 3>>& left_out = {});

// The quantisations recorded when the GPU's profile was fitted
// (gemm/provenance/fp8/quantisation_taken_out of kernels/profiles/<gpu>.json); empty where there
// are none. Throws InputError.
[[nodiscard]] Quantisations recorded_quantisations(const std::string& profile);
[[nodiscard]] nlohmann::ordered_json to_json(const Quantisations& found);

}  // namespace trainyard::fit
