#include "kernels/fit/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/median.hpp"

namespace trainyard::fit {

// Quantiles are elements of the sorted list, without interpolation.
Errors errors_of(std::vector<double> ratios) {
  TY_CHECK(!ratios.empty());
  const auto at = [](std::vector<double>& sorted, double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  std::sort(ratios.begin(), ratios.end());
  Errors errors{.count = ratios.size(), .bias = at(ratios, 0.5) - 1.0};
  for (double& ratio : ratios) ratio = std::abs(ratio - 1.0);
  std::sort(ratios.begin(), ratios.end());
  errors.median = at(ratios, 0.5);
  errors.p95 = at(ratios, 0.95);
  return errors;
}

std::string to_text(const Errors& errors) {
  return fmt::format("median {:.2f} %, p95 {:.2f} %, bias {:+.2f} % ({} shapes)",
                     errors.median * 100, errors.p95 * 100, errors.bias * 100, errors.count);
}

std::vector<bool> draw(std::size_t count, const HoldOut& hold_out) {
  std::mt19937_64 generator(hold_out.seed);
  std::vector<bool> left_out(count);
  // Uses the raw output of the generator, because distributions differ between standard libraries.
  constexpr double words = 18446744073709551616.0;
  for (std::size_t i = 0; i < count; ++i)
    left_out[i] = static_cast<double>(generator()) / words < hold_out.share;
  return left_out;
}

namespace {

constexpr double microsecond = 1e-6;

}  // namespace

// Times are compared by their ratio, so the geometric mean of the two middle values is used where
// it exists.
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
struct TimedGemm {
  double whole_s = 0.0;
  double quantising_s = 0.0;
};
using TimedGemms = std::map<std::array<std::int64_t, 3>, std::vector<TimedGemm>>;

TimedGemms read_gemm_rows(const CsvTable& table, const std::string& dtype,
                          const Quantisations& quantisation_costs) {
  TimedGemms rows;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "dtype") != dtype) continue;
    const std::int64_t m = table.integer(row, "m"), k = table.integer(row, "k");
    const auto cost = quantisation_costs.find(table.text(row, "backend"));
    rows[{m, table.integer(row, "n"), k}].push_back(
        {table.number(row, "time_us") * microsecond,
         cost == quantisation_costs.end() ? 0.0 : cost->second.seconds(m, k)});
  }
  return rows;
}

Sample gemm_alone(const std::array<std::int64_t, 3>& shape, const std::vector<TimedGemm>& rows) {
  Sample mean{.shape = shape};
  double weights = 0.0;
  for (const TimedGemm& row : rows) {
    // Weights of 1 / time^2 give all backends the same relative error.
    const double weight = 1.0 / (row.whole_s * row.whole_s);
    weights += weight;
    mean.seconds += weight * (row.whole_s - row.quantising_s);
    mean.other_s += weight * row.quantising_s;
  }
  mean.seconds /= weights;
  mean.other_s /= weights;
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
  const Quantisations quantisation_costs = dtype == "fp8" ? taken_out : Quantisations{};
  GemmSamples samples;
  samples.taken_out = quantisation_costs;
  // A row that is mostly quantisation does not determine the time of its GEMM.
  constexpr double gemm_share_least = 1.0 / 3.0;
  for (const auto& [shape, rows] : read_gemm_rows(table, dtype, quantisation_costs)) {
    samples.rows += rows.size();
    if (quantisation_costs.empty()) {
      std::vector<double> times;
      for (const TimedGemm& row : rows) times.push_back(row.whole_s);
      samples.medians.push_back({shape, median(std::move(times))});
      continue;
    }
    const Sample alone = gemm_alone(shape, rows);
    if (alone.seconds < gemm_share_least * (alone.seconds + alone.other_s))
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
    // Attention with a window or with narrower keys and values runs other kernels.
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

namespace {

using Widths = std::map<std::int64_t, std::vector<double>>;             // seconds by n
using Lines = std::map<std::pair<std::int64_t, std::int64_t>, Widths>;  // by m and k

// Wider GEMMs run in several waves at falling clocks, so they are on another line.
constexpr std::int64_t width_most = 8192;
constexpr std::size_t widths_least = 5;
constexpr std::size_t lines_least = 8;
// Below few_elements the constant dominates; above many_elements the time per element does.
constexpr double few_elements = 1 << 19;
constexpr double many_elements = 1 << 23;

// Value at n = 0 of the line with the least squared relative error through the points.
double at_no_width(const std::vector<std::pair<double, double>>& points) {
  double weights = 0.0, n = 0.0, t = 0.0;
  for (const auto& [width, seconds] : points) {
    const double weight = 1.0 / (seconds * seconds);
    weights += weight;
    n += weight * width;
    t += weight * seconds;
  }
  n /= weights;
  t /= weights;
  double rise = 0.0, run = 0.0;
  for (const auto& [width, seconds] : points) {
    const double weight = 1.0 / (seconds * seconds);
    rise += weight * (width - n) * (seconds - t);
    run += weight * (width - n) * (width - n);
  }
  return t - rise / run * n;
}

// Difference between fp8 and bf16 at n = 0, over the widths that both have.
std::optional<double> difference(const Widths& fp8, const Widths& bf16) {
  std::vector<std::pair<double, double>> eight, sixteen;
  for (const auto& [n, seconds] : fp8) {
    const auto other = bf16.find(n);
    if (n > width_most || other == bf16.end()) continue;
    eight.emplace_back(static_cast<double>(n), trainyard::median(seconds));
    sixteen.emplace_back(static_cast<double>(n), trainyard::median(other->second));
  }
  if (eight.size() < widths_least) return std::nullopt;
  return at_no_width(eight) - at_no_width(sixteen);
}

// Fits a constant and a time per element to the differences at n = 0, over all (m, k). Nothing
// where there are too few small or large x.
std::optional<Quantisation> quantisation_of(const Lines& fp8, const Lines& bf16) {
  std::vector<std::pair<double, double>> found;  // elements, seconds
  for (const auto& [place, widths] : fp8) {
    const auto other = bf16.find(place);
    if (other == bf16.end()) continue;
    if (const auto more = difference(widths, other->second))
      found.emplace_back(static_cast<double>(place.first * place.second), *more);
  }
  Quantisation cost{.lines = found.size()};
  // Each of the two constants is estimated where the other has little influence. A few rounds
  // remove that remaining influence.
  for (int round = 0; round < 4; ++round) {
    std::vector<double> at_rest, by_element;
    for (const auto& [elements, seconds] : found) {
      if (elements <= few_elements) at_rest.push_back(seconds - cost.element_s * elements);
      if (elements >= many_elements) by_element.push_back((seconds - cost.constant_s) / elements);
    }
    if (std::min(at_rest.size(), by_element.size()) < lines_least) return std::nullopt;
    cost.constant_s = std::max(0.0, trainyard::median(std::move(at_rest)));
    cost.element_s = std::max(0.0, trainyard::median(std::move(by_element)));
  }
  return cost;
}

}  // namespace

Quantisations quantisations(const CsvTable& table,
                            const std::set<std::array<std::int64_t, 3>>& left_out) {
  std::map<std::string, Lines> fp8, bf16;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& dtype = table.text(row, "dtype");
    if (dtype != "fp8" && dtype != "bf16") continue;
    const std::int64_t m = table.integer(row, "m"), n = table.integer(row, "n");
    const std::int64_t k = table.integer(row, "k");
    if (left_out.contains({m, n, k})) continue;
    Lines& lines = (dtype == "fp8" ? fp8 : bf16)[table.text(row, "backend")];
    lines[{m, k}][n].push_back(table.number(row, "time_us") * 1e-6);
  }
  Quantisations found;
  for (const auto& [backend, lines] : fp8)
    if (const auto cost = quantisation_of(lines, bf16[backend])) found[backend] = *cost;
  return found;
}

namespace {

constexpr const char* kRecord = "/gemm/provenance/fp8/quantisation_taken_out";

}  // namespace

nlohmann::ordered_json to_json(const Quantisations& found) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [backend, cost] : found)
    list.push_back({{"backend", backend},
                    {"constant_us", cost.constant_s * 1e6},
                    {"element_ps", cost.element_s * 1e12},
                    {"pairs", cost.lines}});
  return list;
}

Quantisations recorded_quantisations(const std::string& profile) {
  JsonFile file = JsonFile::read(data_file("kernels/profiles", profile));
  const nlohmann::ordered_json::json_pointer place(kRecord);
  Quantisations found;
  if (!file.document().contains(place)) return found;
  JsonObject fp8 = file.root().object("gemm").object("provenance").object("fp8");
  for (JsonObject& entry : fp8.objects("quantisation_taken_out"))
    found[entry.text("backend")] = {
        .constant_s = entry.number("constant_us", {.least = 0.0}) * 1e-6,
        .element_s = entry.number("element_ps", {.least = 0.0}) * 1e-12,
        .lines = static_cast<std::size_t>(entry.integer("pairs", {.least = 0}))};
  if (file.has_problems()) file.finish();
  return found;
}

}  // namespace trainyard::fit
