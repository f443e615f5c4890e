// Reads measured tables for the fit: one sample per shape, the median over backends; and computes
// errors of predictions.
//
//    auto samples = read_gemm_samples(directory / "gemm/h100_sxm.csv", "bf16");
//
// The tables are comma-separated with a header line; they are not part of the project.
//
// An fp8 row of the tables times more than its GEMM: the same backend also quantises x[m, k] to
// fp8. That part is removed.
//
//    const auto found = quantisations(table);            // by backend
//    row_seconds - found.at("sglang").seconds(m, k);      // the GEMM alone
//
// Quantisation does not depend on n. For fixed m and k, a line is fitted through a backend's times
// over n. Its value at n = 0 is the time of everything except the GEMM's own work. The value of fp8
// is higher than that of bf16 by the quantisation. Over (m, k) the difference is a constant plus a
// time per element of x: on the H100 2.7 us and 1.62 ps (sglang), 9.9 us and 2.35 ps (trtllm). At
// 3.35 TB/s these are 5.4 and 7.9 bytes: x is read twice, for its largest value and for the
// division, and written once. A training step has these casts as separate kernels, so the time of a
// GEMM must not contain them as well.
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

// Relative errors |predicted / measured - 1|, and the median of the signed errors.
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

// REQUIRES: ratios of predicted / measured, at least one.
[[nodiscard]] Errors errors_of(std::vector<double> ratios);
// "median 2.1 %, p95 9.8 %, bias +0.3 % (1053 shapes)".
[[nodiscard]] std::string to_text(const Errors& errors);

// True for the samples, of `count`, that are left out. The draw is the same for a seed on every
// machine.
[[nodiscard]] std::vector<bool> draw(std::size_t count, const HoldOut& hold_out);

struct Sample {
  std::array<std::int64_t, 3> shape{};  // m, n, k of a GEMM
  double seconds = 0.0;
  double other_s = 0.0;  // time that the row contains in addition to the GEMM
  // Predicted over measured time of the whole row, from the predicted time of the GEMM.
  [[nodiscard]] double ratio(double predicted_s) const {
    return (predicted_s + other_s) / (seconds + other_s);
  }
};

// Time in a backend's fp8 rows in addition to the GEMM (see above).
struct Quantisation {
  double constant_s = 0.0;
  double element_s = 0.0;
  std::size_t lines = 0;  // number of (m, k) pairs that it was derived from
  [[nodiscard]] double seconds(std::int64_t m, std::int64_t k) const {
    return constant_s + element_s * static_cast<double>(m) * static_cast<double>(k);
  }
};
using Quantisations = std::map<std::string, Quantisation>;  // by backend

struct GemmSamples {
  std::vector<Sample> medians;  // medians over the backends, by ascending shape
  std::size_t rows = 0;
  Quantisations taken_out;   // removed from each backend's fp8 rows
  std::size_t left_out = 0;  // shapes whose time is mostly quantisation
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

// The GEMMs of a table. For fp8 rows the time is that of the GEMM alone (see above): a mean over
// the backends, with weights for equal relative error. A shape is left out where the GEMM is less
// than a third of the time.
[[nodiscard]] GemmSamples read_gemm_samples(const std::filesystem::path& file,
                                            const std::string& dtype);
// The same with given quantisations, so that rows under evaluation do not contribute to them.
[[nodiscard]] GemmSamples read_gemm_samples(const std::filesystem::path& file,
                                            const std::string& dtype,
                                            const Quantisations& taken_out);
// Full causal attention in bf16 by one backend, with keys and values cached in bf16.
[[nodiscard]] AttentionSamples read_attention_samples(const std::filesystem::path& file,
                                                      const std::string& backend);

// The median; for an even number the geometric mean of the middle two. REQUIRES: not empty.
[[nodiscard]] double median(std::vector<double> values);

// Quantisation of each backend that has fp8 and bf16 rows at enough (m, k). Rows of the shapes in
// `left_out` are not used.
[[nodiscard]] Quantisations quantisations(
    const CsvTable& table, const std::set<std::array<std::int64_t, 3>>& left_out = {});

// The quantisations that were recorded when the GPU's profile was fitted
// (gemm/provenance/fp8/quantisation_taken_out of kernels/profiles/<gpu>.json); empty if there are
// none. Throws InputError.
[[nodiscard]] Quantisations recorded_quantisations(const std::string& profile);
[[nodiscard]] nlohmann::ordered_json to_json(const Quantisations& found);

}  // namespace trainyard::fit
