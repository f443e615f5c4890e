#include "kernels/bench/attention_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/bench/measure.hpp"
#include "kernels/bench/random_value.hpp"
#include "kernels/bench/reference.hpp"

namespace trainyard::bench {

namespace {

using reference::AttentionRow;
using reference::StoredValue;

StoredValue filled(const Attention& a, std::uint64_t seed) {
  return [dtype = a.dtype, seed](std::int64_t place) {
    return reference::rounded(dtype, static_cast<double>(random_value(seed, place)));
  };
}

reference::AttentionOperands operands_of(const Attention& a) {
  return {.q = filled(a, attention_seeds.q),
          .k = filled(a, attention_seeds.k),
          .v = filled(a, attention_seeds.v)};
}

// Reads the GPU's results in blocks, because the reference requests one value at a time.
StoredValue read_ahead(const DeviceMemory& memory, DataType dtype) {
  struct StoredPart {
    std::int64_t first = -1;
    std::vector<double> values;
  };
  return [&memory, dtype, part = StoredPart{}](std::int64_t place) mutable {
    constexpr std::int64_t stretch_values = 4096;
    const std::int64_t first = place / stretch_values * stretch_values;
    if (part.first != first) {
      const auto all =
          static_cast<std::int64_t>(static_cast<double>(memory.bytes()) / element_bytes(dtype));
      part = {first, read_stored(memory, {.dtype = dtype,
                                          .first = first,
                                          .count = std::min(stretch_values, all - first)})};
    }
    return part.values[static_cast<std::size_t>(place - first)];
  };
}

// Weights are rounded to 8 bits before they are multiplied with the values, and sums are fp32. A
// correct row deviates by about a hundredth of its root mean square; a wrong row deviates by about
// its root mean square.
void compare(const DeviceMemory& memory, DataType dtype, std::int64_t first,
             const std::vector<double>& expected, const std::string& what) {
  double squares = 0.0;
  for (const double value : expected) squares += value * value;
  const double size = std::sqrt(squares / static_cast<double>(expected.size()));
  const auto computed = read_stored(
      memory,
      {.dtype = dtype, .first = first, .count = static_cast<std::int64_t>(expected.size())});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double tolerance = size / 16.0 + std::ldexp(std::abs(expected[i]), -7);
    if (!(std::abs(computed[i] - expected[i]) <= tolerance))
      throw WrongResult(fmt::format("{}, column {}: {}, the reference says {}", what, i,
                                    computed[i], expected[i]));
  }
}

std::int64_t first_of(const Attention& a, const AttentionRow& row, std::int64_t columns) {
  return reference::row_place(row, a.query_length, a.query_heads, columns);
}

std::string text_of(const char* what, const AttentionRow& row) {
  return fmt::format("{} of batch {}, head {}, position {}", what, row.batch, row.head,
                     row.position);
}

}  // namespace

void check_attention(const Attention& a, const AttentionResults& results) {
  const auto operands = operands_of(a);
  const std::array rows = {AttentionRow{},
                           AttentionRow{a.batch / 2, a.query_heads / 2, a.query_length / 2},
                           AttentionRow{a.batch - 1, a.query_heads - 1, a.query_length - 1}};
  for (const AttentionRow& row : rows) {
    const auto expected = reference::attention_row(a, row, operands);
    compare(results.result, a.dtype, first_of(a, row, a.head_dim_v), expected.values,
            text_of("the result", row));
    if (results.log_sum == nullptr) continue;
    const std::int64_t place =
        (row.batch * a.query_heads + row.head) * a.query_length + row.position;
    const double sum =
        read_stored(*results.log_sum, {.dtype = DataType::Fp32, .first = place, .count = 1})
            .front();
    if (!(std::abs(sum - expected.log_sum) <= 1e-2 * (1.0 + std::abs(expected.log_sum))))
      throw WrongResult(fmt::format("{}: {}, the reference says {}", text_of("the log sum", row),
                                    sum, expected.log_sum));
  }
}

// The first query has only one key, so its gradient is noise and is not checked. A late key of a
// causal attention has few queries, which limits the time of the reference.
void check_attention_gradients(const Attention& a, const AttentionResults& results) {
  reference::GradientOperands operands{
      .forward = operands_of(a),
      .result = read_ahead(results.result, a.dtype),
      .result_gradient = filled(a, attention_seeds.result_gradient),
      .log_sum = {}};
  if (results.log_sum != nullptr) {
    operands.log_sum = read_ahead(*results.log_sum, DataType::Fp32);
  } else {
    operands.log_sum = [&a, forward = operands.forward](std::int64_t place) {
      // The sums have the layout [batch, head, position].
      const std::int64_t head = place / a.query_length;
      return reference::attention_row(
                 a, {head / a.query_heads, head % a.query_heads, place % a.query_length}, forward)
          .log_sum;
    };
  }
  const std::array queries = {AttentionRow{0, 0, a.query_length / 2},
                              AttentionRow{a.batch - 1, a.query_heads - 1, a.query_length - 1}};
  for (const AttentionRow& row : queries)
    compare(*results.q_gradient, a.dtype, first_of(a, row, a.head_dim_qk),
            reference::query_gradient_row(a, row, operands), text_of("the query gradient", row));
  constexpr std::int64_t last_queries = 16;
  const AttentionRow row{a.batch - 1, a.kv_heads - 1,
                         std::max<std::int64_t>(a.kv_length - last_queries, 0)};
  const auto expected = reference::key_gradient_row(a, row, operands);
  const auto place = [&](std::int64_t columns) {
    return reference::row_place(row, a.kv_length, a.kv_heads, columns);
  };
  compare(*results.k_gradient, a.dtype, place(a.head_dim_qk), expected.key,
          text_of("the key gradient", row));
  compare(*results.v_gradient, a.dtype, place(a.head_dim_v), expected.value,
          text_of("the value gradient", row));
}

}  // namespace trainyard::bench
