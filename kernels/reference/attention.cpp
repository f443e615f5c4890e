#include "kernels/reference/attention.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"

namespace trainyard::reference {

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

AttentionRow key_seen(const Attention& a, const AttentionRow& query, std::int64_t position) {
  return {query.batch, query.head / (a.query_heads / a.kv_heads), position};
}

std::int64_t keys_seen(const Attention& a, std::int64_t query) {
  return a.causal ? std::min(query + 1, a.kv_length) : a.kv_length;
}

// One attention's rows by what they are.
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

// What all keys need of one query.
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
    const double change = weight * (dot(query.result_gradient, rows.value(seen)) - query.sum);
    add_scaled(gradient, scale_of(a) * change, key);
  }
  return gradient;
}

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

}  // namespace trainyard::reference
