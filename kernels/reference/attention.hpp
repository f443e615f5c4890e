// The CPU reference of attention: single rows of its result and gradients, in double precision.
//
//   attention_row(attention, {.head = 3, .position = 17}, {q, k, v});   // the result's row
//
// Operands are functions from a place in memory to the value there; all are laid out [batch,
// position, head, column]. With s = q k / sqrt(d_qk), P = softmax(s) over the keys that a query may
// see, dP = dO v and D = dO O: dS = P (dP - D), dV = P^T dO, dQ = dS k / sqrt(d_qk), dK likewise
// (Dao et al. 2022, arXiv 2205.14135, appendix B.4).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/reference/gemm.hpp"

namespace trainyard::reference {

// A query's row, or (in gradients of keys and values) a key's with the key head's number.
struct AttentionRow {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t position = 0;
};
// Of the first column of a row, where each position has that many heads of so many columns.
[[nodiscard]] std::int64_t row_place(const AttentionRow& row, std::int64_t positions,
                                     std::int64_t heads, std::int64_t columns);

struct AttentionOperands {
  StoredValue q, k, v;
};
struct ResultRow {
  std::vector<double> values;  // head_dim_v
  double log_sum = 0.0;        // log of the sum of exp(s)
};
[[nodiscard]] ResultRow attention_row(const Attention& attention, const AttentionRow& row,
                                      const AttentionOperands& operands);

// What backward is given besides: the result, its gradient, and the log of each row's sum, laid out
// [batch, head, position].
struct GradientOperands {
  AttentionOperands forward;
  StoredValue result, result_gradient, log_sum;
};
[[nodiscard]] std::vector<double> query_gradient_row(const Attention& attention,
                                                     const AttentionRow& row,
                                                     const GradientOperands& operands);
struct KeyGradientRow {
  std::vector<double> key, value;
};
// Summed over the query heads that share the key head.
[[nodiscard]] KeyGradientRow key_gradient_row(const Attention& attention, const AttentionRow& row,
                                              const GradientOperands& operands);

}  // namespace trainyard::reference
