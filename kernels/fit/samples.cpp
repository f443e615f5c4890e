#include "kernels/fit/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>
#include <tuple>

#include "kernels/fit/quantisation.hpp"
#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard::fit {

namespace {

constexpr double microsecond = 1e-6;

}  // namespace

double median(std::vector<double> values) {
  TY_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  const double low = values[middle - 1];
  const double high = values[middle];
  return low > 0.0 ? std::sqrt(low * high) : (low + high) / 2.0;
}

namespace {

// One backend's time for a shape.
struct TimedProduct {
  double whole_s = 0.0;
  double quantising_s = 0.0;
};
using TimedProducts = std::map<std::array<std::int64_t, 3>, std::vector<TimedProduct>>;

TimedProducts read_gemm_rows(const CsvTable& table, const std::string& dtype,
                             const Quantisations& beside) {
  TimedProducts rows;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "dtype") != dtype) continue;
    const std::int64_t m = table.integer(row, "m"), k = table.integer(row, "k");
    const auto cost = beside.find(table.text(row, "backend"));
    rows[{m, table.integer(row, "n"), k}].push_back(
        {table.number(row, "time_us") * microsecond,
         cost == beside.end() ? 0.0 : cost->second.seconds(m, k)});
  }
  return rows;
}

Sample product_alone(const std::array<std::int64_t, 3>& shape,
                     const std::vector<TimedProduct>& rows) {
  Sample mean{.shape = shape};
  double weights = 0.0;
  for (const TimedProduct& row : rows) {
    const double weight = 1.0 / (row.whole_s * row.whole_s);
    weights += weight;
    mean.seconds += weight * (row.whole_s - row.quantising_s);
    mean.beside_s += weight * row.quantising_s;
  }
  mean.seconds /= weights;
  mean.beside_s /= weights;
  return mean;
}

}  // namespace

GemmSamples read_gemm_samples(const std::filesystem::path& file, const std::string& dtype) {
  return read_gemm_samples(file, dtype,
                           dtype == "fp8" ? quantisations(CsvTable(file)) : Quantisations{});
}

GemmSamples read_gemm_samples(const std::filesystem::path& file, const std::string& dtype,
                              const Quantisations& taken_out) {
  const CsvTable table(file);
  const Quantisations beside = dtype == "fp8" ? taken_out : Quantisations{};
  GemmSamples samples;
  samples.taken_out = beside;
  constexpr double product_share_least = 1.0 / 3.0;
  for (const auto& [shape, rows] : read_gemm_rows(table, dtype, beside)) {
    samples.rows += rows.size();
    if (beside.empty()) {
      std::vector<double> times;
      for (const TimedProduct& row : rows) times.push_back(row.whole_s);
      samples.medians.push_back({shape, median(std::move(times))});
      continue;
    }
    const Sample alone = product_alone(shape, rows);
    if (alone.seconds < product_share_least * (alone.seconds + alone.beside_s))
      ++samples.left_out;
    else
      samples.medians.push_back(alone);
  }
  return samples;
}

AttentionSamples read_attention_samples(const std::filesystem::path& file,
                                        const std::string& backend) {
  const CsvTable table(file);
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Key, std::vector<double>> by_shape;
  AttentionSamples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "dtype") != "bf16" || table.integer(row, "window") != 0) continue;
    if (table.text(row, "backend") != backend || table.text(row, "kv_dtype") != "bf16") continue;
    const Key key{table.integer(row, "head_dim"), table.integer(row, "seq"),
                  table.integer(row, "batch"), table.integer(row, "heads"),
                  table.integer(row, "kv_heads")};
    by_shape[key].push_back(table.number(row, "time_us") * microsecond);
    ++samples.rows;
  }
  for (auto& [key, times] : by_shape) {
    const auto& [head_dim, sequence, batch, heads, kv_heads] = key;
    samples.medians.push_back(
        {batch, sequence, heads, kv_heads, head_dim, median(std::move(times))});
  }
  return samples;
}

}  // namespace trainyard::fit
