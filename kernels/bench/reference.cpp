#include "kernels/bench/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/check.hpp"

namespace trainyard::reference {

// Fp8 is E4M3.
NumberFormat number_format(DataType dtype) {
  switch (dtype) {
    case DataType::Fp32:
      return {.fraction_bits = 23, .least_exponent = -126, .largest = 0x1.fffffep127};
    case DataType::Tf32:
      return {.fraction_bits = 10, .least_exponent = -126, .largest = 0x1.ffcp127};
    case DataType::Bf16:
      return {.fraction_bits = 7, .least_exponent = -126, .largest = 0x1.fep127};
    case DataType::Fp16:
      return {.fraction_bits = 10, .least_exponent = -14, .largest = 65504.0};
    case DataType::Fp8:
      return {.fraction_bits = 3, .least_exponent = -6, .largest = 448.0};
  }
  return {};
}

double rounded(DataType dtype, double value) {
  TY_CHECK(std::isfinite(value), value);
  if (value == 0.0) return value;
  const NumberFormat format = number_format(dtype);
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  // Distance of neighbouring values at this magnitude. nearbyint rounds ties to even.
  const double quantum = std::ldexp(1.0, exponent - format.fraction_bits);
  return std::clamp(std::nearbyint(value / quantum) * quantum, -format.largest, format.largest);
}

double decoded(DataType dtype, std::uint32_t bits) {
  const int width = 8 * static_cast<int>(element_bytes(dtype));
  // tf32 is stored as fp32, with the last fraction bits zero.
  const int fraction_bits =
      number_format(dtype == DataType::Tf32 ? DataType::Fp32 : dtype).fraction_bits;
  const std::uint32_t one = 1;
  const std::uint32_t fraction = bits & ((one << fraction_bits) - 1);
  const std::uint32_t raised = (bits >> fraction_bits) & ((one << (width - 1 - fraction_bits)) - 1);
  const std::uint32_t all_raised = (one << (width - 1 - fraction_bits)) - 1;
  const double sign = ((bits >> (width - 1)) & 1U) != 0 ? -1.0 : 1.0;
  // E4M3 has no infinities, and only the pattern of all ones is not a number.
  if (dtype == DataType::Fp8 ? (bits & 0x7fU) == 0x7fU : raised == all_raised)
    return dtype != DataType::Fp8 && fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                                                   : std::numeric_limits<double>::quiet_NaN();
  // An exponent field of 0 means a subnormal number: no leading one, and the exponent of field 1.
  const double leading = raised == 0 ? 0.0 : std::ldexp(1.0, fraction_bits);
  const int exponent = std::max(static_cast<int>(raised), 1) - 1 +
                       number_format(dtype).least_exponent - fraction_bits;
  return sign * std::ldexp(leading + static_cast<double>(fraction), exponent);
}

// Fp8 operands have one layout for all passes, with both operands contiguous along k.
bool a_is_transposed(const Gemm& gemm) {
  return gemm.pass == GemmPass::WeightGrad && gemm.dtype != DataType::Fp8;
}

bool b_is_transposed(const Gemm& gemm) {
  return gemm.pass == GemmPass::Forward || gemm.dtype == DataType::Fp8;
}

std::int64_t a_index(const Gemm& gemm, const GemmEntry& entry, std::int64_t l) {
  const std::int64_t inside =
      a_is_transposed(gemm) ? l * gemm.m + entry.row : entry.row * gemm.k + l;
  return entry.batch * gemm.m * gemm.k + inside;
}

std::int64_t b_index(const Gemm& gemm, const GemmEntry& entry, std::int64_t l) {
  const std::int64_t inside =
      b_is_transposed(gemm) ? entry.column * gemm.k + l : l * gemm.n + entry.column;
  return entry.batch * gemm.k * gemm.n + inside;
}

std::int64_t result_place(const Gemm& gemm, const GemmEntry& entry) {
  return (entry.batch * gemm.m + entry.row) * gemm.n + entry.column;
}

// The tanh form, which cuBLASLt's epilogue computes.
double gelu(double x) {
  constexpr double root_of_two_over_pi = 0.7978845608028654;
  return 0.5 * x * (1.0 + std::tanh(root_of_two_over_pi * (x + 0.044715 * x * x * x)));
}

// Sums in double, whose rounding is negligible compared with that of the stored formats.
double gemm_entry(const Gemm& gemm, const GemmEntry& entry, const StoredValue& a,
                  const StoredValue& b) {
  double sum = 0.0;
  for (std::int64_t l = 0; l < gemm.k; ++l)
    sum += a(a_index(gemm, entry, l)) * b(b_index(gemm, entry, l));
  return sum;
}

namespace {

using Row = std::vector<double>;

Row row_of(const StoredValue& stored, std::int64_t first, std::int64_t columns) {
  Row values;
  for (std::int64_t i = 0; i < columns; ++i) values.push_back(stored(first + i));
  return values;
}

double dot(const Row& a, const Row& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(Row& into, double factor, const Row& row) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += factor * row[i];
}

double scale_of(const Attention& a) { return 1.0 / std::sqrt(static_cast<double>(a.head_dim_qk)); }

// The row of a key, at the key head that the head of this query shares.
AttentionRow key_seen(const Attention& a, const AttentionRow& query, std::int64_t position) {
  return {query.batch, query.head / (a.query_heads / a.kv_heads), position};
}

std::int64_t keys_seen(const Attention& a, std::int64_t query) {
  return a.causal ? std::min(query + 1, a.kv_length) : a.kv_length;
}

// Reads the rows of one attention's operands.
struct Rows {
  const Attention& a;
  const AttentionOperands& from;
  [[nodiscard]] Row query(const AttentionRow& r) const {
    return row_of(from.q, row_place(r, a.query_length, a.query_heads, a.head_dim_qk),
                  a.head_dim_qk);
  }
  [[nodiscard]] Row key(const AttentionRow& r) const {
    return row_of(from.k, row_place(r, a.kv_length, a.kv_heads, a.head_dim_qk), a.head_dim_qk);
  }
  [[nodiscard]] Row value(const AttentionRow& r) const {
    return row_of(from.v, row_place(r, a.kv_length, a.kv_heads, a.head_dim_v), a.head_dim_v);
  }
  [[nodiscard]] Row result_row(const StoredValue& stored, const AttentionRow& r) const {
    return row_of(stored, row_place(r, a.query_length, a.query_heads, a.head_dim_v), a.head_dim_v);
  }
};

// Values of one query that the gradients of all its keys need.
struct QueryGradient {
  Row query, result_gradient;
  double log_sum = 0.0, sum = 0.0;
};

QueryGradient query_gradient(const Attention& a, const AttentionRow& row,
                             const GradientOperands& operands) {
  const Rows rows{a, operands.forward};
  QueryGradient found{.query = rows.query(row),
                      .result_gradient = rows.result_row(operands.result_gradient, row)};
  found.sum = dot(found.result_gradient, rows.result_row(operands.result, row));
  found.log_sum =
      operands.log_sum((row.batch * a.query_heads + row.head) * a.query_length + row.position);
  return found;
}

}  // namespace

std::int64_t row_place(const AttentionRow& row, std::int64_t positions, std::int64_t heads,
                       std::int64_t columns) {
  return ((row.batch * positions + row.position) * heads + row.head) * columns;
}

ResultRow attention_row(const Attention& a, const AttentionRow& row,
                        const AttentionOperands& operands) {
  TY_CHECK(row.position < a.query_length && row.head < a.query_heads, row.position, row.head);
  const Rows rows{a, operands};
  const Row query = rows.query(row);
  Row scores;
  for (std::int64_t key = 0; key < keys_seen(a, row.position); ++key)
    scores.push_back(scale_of(a) * dot(query, rows.key(key_seen(a, row, key))));
  // The largest score is subtracted before exp, so that no weight overflows.
  const double largest = *std::ranges::max_element(scores);
  ResultRow found{.values = Row(static_cast<std::size_t>(a.head_dim_v), 0.0)};
  double sum = 0.0;
  for (std::size_t key = 0; key < scores.size(); ++key) {
    const double weight = std::exp(scores[key] - largest);
    sum += weight;
    add_scaled(found.values, weight, rows.value(key_seen(a, row, static_cast<std::int64_t>(key))));
  }
  for (double& value : found.values) value /= sum;
  found.log_sum = largest + std::log(sum);
  return found;
}

std::vector<double> query_gradient_row(const Attention& a, const AttentionRow& row,
                                       const GradientOperands& operands) {
  const Rows rows{a, operands.forward};
  const QueryGradient query = query_gradient(a, row, operands);
  Row gradient(static_cast<std::size_t>(a.head_dim_qk), 0.0);
  for (std::int64_t position = 0; position < keys_seen(a, row.position); ++position) {
    const AttentionRow seen = key_seen(a, row, position);
    const Row key = rows.key(seen);
    const double weight = std::exp(scale_of(a) * dot(query.query, key) - query.log_sum);
    // One entry of dS = P (dP - D), with D in query.sum.
    const double change = weight * (dot(query.result_gradient, rows.value(seen)) - query.sum);
    add_scaled(gradient, scale_of(a) * change, key);
  }
  return gradient;
}

// With a causal mask only the queries from the key's position on attend to it.
KeyGradientRow key_gradient_row(const Attention& a, const AttentionRow& row,
                                const GradientOperands& operands) {
  const Rows rows{a, operands.forward};
  const Row key = rows.key(row);
  const Row value = rows.value(row);
  KeyGradientRow found{.key = Row(key.size(), 0.0), .value = Row(value.size(), 0.0)};
  const std::int64_t sharing = a.query_heads / a.kv_heads;
  for (std::int64_t head = row.head * sharing; head < (row.head + 1) * sharing; ++head)
    for (std::int64_t i = a.causal ? row.position : 0; i < a.query_length; ++i) {
      const QueryGradient query = query_gradient(a, {row.batch, head, i}, operands);
      const double weight = std::exp(scale_of(a) * dot(query.query, key) - query.log_sum);
      const double change = weight * (dot(query.result_gradient, value) - query.sum);
      add_scaled(found.key, scale_of(a) * change, query.query);
      add_scaled(found.value, weight, query.result_gradient);
    }
  return found;
}

std::vector<double> rms_norm_row(std::span<const double> x, std::span<const double> weight,
                                 double epsilon) {
  TY_CHECK(!x.empty() && x.size() == weight.size(), x.size(), weight.size());
  double squares = 0.0;
  for (const double value : x) squares += value * value;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  std::vector<double> normed;
  for (std::size_t i = 0; i < x.size(); ++i) normed.push_back(x[i] * scale * weight[i]);
  return normed;
}

std::vector<double> layer_norm_row(std::span<const double> x,
                                   std::span<const double> weight_and_bias, double epsilon) {
  TY_CHECK(!x.empty() && 2 * x.size() == weight_and_bias.size(), x.size(), weight_and_bias.size());
  const auto count = static_cast<double>(x.size());
  double mean = 0.0;
  for (const double value : x) mean += value / count;
  double variance = 0.0;
  for (const double value : x) variance += (value - mean) * (value - mean) / count;
  const double scale = 1.0 / std::sqrt(variance + epsilon);
  std::vector<double> normed;
  for (std::size_t i = 0; i < x.size(); ++i)
    normed.push_back((x[i] - mean) * scale * weight_and_bias[i] + weight_and_bias[x.size() + i]);
  return normed;
}

std::vector<double> swiglu_row(std::span<const double> gate_and_up) {
  TY_CHECK(gate_and_up.size() % 2 == 0, gate_and_up.size());
  const std::size_t columns = gate_and_up.size() / 2;
  std::vector<double> activated;
  for (std::size_t i = 0; i < columns; ++i)
    activated.push_back(gate_and_up[i] / (1.0 + std::exp(-gate_and_up[i])) *
                        gate_and_up[columns + i]);
  return activated;
}

std::vector<double> softmax_row(std::span<const double> x) {
  TY_CHECK(!x.empty(), x.size());
  const double largest = *std::ranges::max_element(x);
  double sum = 0.0;
  std::vector<double> share;
  for (const double value : x) {
    share.push_back(std::exp(value - largest));
    sum += share.back();
  }
  for (double& value : share) value /= sum;
  return share;
}

// The table holds the cosines and then the sines of one position. Number i of a head forms a pair
// with number i + half.
std::vector<double> rope_row(std::span<const double> x, std::span<const double> table) {
  const std::size_t half = table.size() / 2;
  TY_CHECK(half > 0 && x.size() % table.size() == 0, x.size(), table.size());
  std::vector<double> turned(x.size());
  for (std::size_t head = 0; head < x.size(); head += table.size())
    for (std::size_t i = 0; i < half; ++i) {
      const double a = x[head + i];
      const double b = x[head + half + i];
      turned[head + i] = a * table[i] - b * table[half + i];
      turned[head + half + i] = b * table[i] + a * table[half + i];
    }
  return turned;
}

std::vector<double> cross_entropy_gradient_row(std::span<const double> x, std::size_t target) {
  TY_CHECK(target < x.size(), target, x.size());
  std::vector<double> gradient = softmax_row(x);
  gradient[target] -= 1.0;
  return gradient;
}

AdamState adam_step(const AdamState& before, double gradient, const AdamConstants& c) {
  AdamState after;
  after.momentum = c.beta1 * before.momentum + (1.0 - c.beta1) * gradient;
  after.variance = c.beta2 * before.variance + (1.0 - c.beta2) * gradient * gradient;
  // At the first step the bias corrections are 1 - beta^1.
  const double momentum = after.momentum / (1.0 - c.beta1);
  const double variance = after.variance / (1.0 - c.beta2);
  after.weight = before.weight -
                 c.rate * (momentum / (std::sqrt(variance) + c.epsilon) + c.decay * before.weight);
  return after;
}

}  // namespace trainyard::reference
