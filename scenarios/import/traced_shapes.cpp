#include "scenarios/import/traced_shapes.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "scenarios/import/trace_builder.hpp"

namespace trainyard {

namespace {

// Larger tensors are no measurements, and their bytes do not fit.
constexpr double kMostElements = 1e15;

// Cuts off the overload: "aten::add.Tensor" is aten::add.
std::string_view operator_name(std::string_view name) {
  return name.substr(0, name.find_first_of(". "));
}

// Returns the dimensions of an input that is one tensor; nullptr for numbers and lists of tensors.
const TensorDims* tensor(const TracedShape& shape, std::size_t input) {
  if (input >= shape.inputs.size() || shape.inputs[input].size() != 1) return nullptr;
  return &shape.inputs[input].front();
}

// Returns 0 for a tensor without elements, or with too many.
std::int64_t elements(const TensorDims& dims) {
  double product = 1.0;
  for (const std::int64_t dim : dims) product *= dim > 0 ? static_cast<double>(dim) : 0.0;
  return product > 0.0 && product < kMostElements ? std::llround(product) : 0;
}

// The position of the two factors in the inputs of a GEMM.
struct GemmRule {
  std::string_view name;
  std::size_t left = 0;
  std::size_t right = 1;
  bool transposed = false;  // the right factor is [n, k]
};
constexpr std::array<GemmRule, 6> kGemms{{{"aten::mm", 0, 1, false},
                                          {"aten::addmm", 1, 2, false},
                                          {"aten::bmm", 0, 1, false},
                                          {"aten::baddbmm", 1, 2, false},
                                          {"aten::_scaled_mm", 0, 1, false},
                                          {"aten::linear", 0, 1, true}}};

// Attention: where queries and keys lie in the inputs, and where the scalar "causal" is.
struct AttentionRule {
  std::string_view name;
  std::size_t query = 0;
  std::size_t causal = 0;
  bool heads_first = true;  // [batch, heads, sequence, width], else [batch, sequence, heads, width]
  bool backward = false;
  std::size_t window = 0;  // of the left window in the scalars; 0: there is none
};
constexpr std::array<AttentionRule, 12> kAttention{{
    {"aten::_scaled_dot_product_flash_attention", 0, 4, true, false},
    {"aten::_scaled_dot_product_flash_attention_backward", 1, 11, true, true},
    {"aten::_scaled_dot_product_cudnn_attention", 0, 6, true, false},
    {"aten::_scaled_dot_product_cudnn_attention_backward", 1, 14, true, true},
    {"aten::_scaled_dot_product_efficient_attention", 0, 6, true, false},
    {"aten::_scaled_dot_product_efficient_attention_backward", 1, 11, true, true},
    {"aten::_flash_attention_forward", 0, 8, false, false},
    {"aten::_flash_attention_backward", 1, 11, false, true},
    {"flash_attn::_flash_attn_forward", 0, 5, false, false, 6},
    {"flash_attn::_flash_attn_backward", 1, 11, false, true, 12},
    {"flash_attn::_flash_attn_varlen_forward", 0, 0, false, false},
    {"flash_attn::_flash_attn_varlen_backward", 1, 0, false, true},
}};

// A memory-bound operation reads some of its inputs, and writes a result as large as one of them
// (or as the largest input that it reads: kLargest), of that input's type.
constexpr std::int8_t kNone = -1;
constexpr std::int8_t kLargest = -2;
struct MemoryRule {
  std::string_view name;
  MemoryBoundKind kind;
  std::array<std::int8_t, 2> reads;
  std::int8_t writes;
};
using ShapeKind = MemoryBoundKind;
constexpr std::array<MemoryRule, 26> kMemoryBound{{
    {"aten::native_layer_norm", ShapeKind::Norm, {0, kNone}, 0},
    {"aten::native_layer_norm_backward", ShapeKind::Norm, {0, 1}, 1},
    {"aten::_fused_rms_norm", ShapeKind::Norm, {0, kNone}, 0},
    {"aten::_fused_rms_norm_backward", ShapeKind::Norm, {0, 1}, 1},
    {"aten::silu", ShapeKind::Activation, {0, kNone}, 0},
    {"aten::silu_backward", ShapeKind::Activation, {0, 1}, 1},
    {"aten::gelu", ShapeKind::Activation, {0, kNone}, 0},
    {"aten::gelu_backward", ShapeKind::Activation, {0, 1}, 1},
    {"aten::relu", ShapeKind::Activation, {0, kNone}, 0},
    {"aten::threshold_backward", ShapeKind::Activation, {0, 1}, 1},
    {"aten::_softmax", ShapeKind::Softmax, {0, kNone}, 0},
    {"aten::_softmax_backward_data", ShapeKind::Softmax, {0, 1}, 0},
    {"aten::_log_softmax", ShapeKind::CrossEntropy, {0, kNone}, 0},
    {"aten::_log_softmax_backward_data", ShapeKind::CrossEntropy, {0, 1}, 0},
    {"aten::embedding", ShapeKind::Embedding, {kNone, kNone}, kNone},
    {"aten::add", ShapeKind::Elementwise, {0, 1}, kLargest},
    {"aten::add_", ShapeKind::Elementwise, {0, 1}, 0},
    {"aten::sub", ShapeKind::Elementwise, {0, 1}, kLargest},
    {"aten::mul", ShapeKind::Elementwise, {0, 1}, kLargest},
    {"aten::mul_", ShapeKind::Elementwise, {0, 1}, 0},
    {"aten::div", ShapeKind::Elementwise, {0, 1}, kLargest},
    {"aten::div_", ShapeKind::Elementwise, {0, 1}, 0},
    {"aten::neg", ShapeKind::Elementwise, {0, kNone}, 0},
    {"aten::copy_", ShapeKind::Cast, {1, kNone}, 0},
    {"aten::fill_", ShapeKind::Zero, {kNone, kNone}, 0},
    {"aten::zero_", ShapeKind::Zero, {kNone, kNone}, 0},
}};

template <class Rules>
const typename Rules::value_type* rule_of(const Rules& rules, std::string_view name) {
  const auto found = std::ranges::find(rules, operator_name(name), &Rules::value_type::name);
  return found == rules.end() ? nullptr : &*found;
}

// Bytes of one element of an input.
double width_of(const TracedShape& shape, std::size_t input, double otherwise) {
  if (input >= shape.types.size()) return otherwise;
  const auto bytes = element_type(shape.types[input]).bytes;
  return bytes > 0 ? static_cast<double>(bytes) : otherwise;
}

struct Traffic {
  double bytes = 0.0;
  std::int64_t elements = 0;
  double width = 0.0;
};
Traffic traffic_of(const TracedShape& shape, std::int8_t input, double otherwise) {
  if (input < 0) return {};
  const auto index = static_cast<std::size_t>(static_cast<unsigned char>(input));
  const TensorDims* dims = tensor(shape, index);
  if (dims == nullptr) return {};
  const std::int64_t count = elements(*dims);
  const double width = width_of(shape, index, otherwise);
  return {static_cast<double>(count) * width, count, width};
}

// A lookup reads a row of the table for each index and writes it: twice the result.
double lookup_bytes(const TracedShape& shape, double width) {
  const TensorDims* table = tensor(shape, 0);
  const TensorDims* indices = tensor(shape, 1);
  if (table == nullptr || indices == nullptr || table->size() != 2 || table->back() <= 0)
    return 0.0;
  return 2.0 * static_cast<double>(elements(*indices)) * static_cast<double>(table->back()) *
         width_of(shape, 0, width);
}

ShapedKernel without(std::string reason) {
  return {.kernel = {}, .reason = std::move(reason), .assumed_causal = false};
}

const std::string* scalar(const TracedShape& shape, std::size_t input) {
  if (input >= shape.scalars.size() || shape.scalars[input].empty()) return nullptr;
  return &shape.scalars[input];
}

}  // namespace

bool is_gemm_operation(std::string_view name) { return rule_of(kGemms, name) != nullptr; }
bool is_attention_operation(std::string_view name) { return rule_of(kAttention, name) != nullptr; }
bool is_memory_bound_operation(std::string_view name) {
  return rule_of(kMemoryBound, name) != nullptr;
}

std::optional<DataType> dtype_of_input(const TracedShape& shape, std::size_t input) {
  if (input >= shape.types.size()) return std::nullopt;
  const std::string_view name = element_type(shape.types[input]).nccl_name;
  if (name == "bfloat16") return DataType::Bf16;
  if (name == "half") return DataType::Fp16;
  if (name == "float") return DataType::Fp32;
  if (name == "f8e4m3" || name == "f8e5m2") return DataType::Fp8;
  return std::nullopt;
}

std::optional<GemmDims> gemm_dims(std::string_view name, const TracedShape& shape) {
  const GemmRule* rule = rule_of(kGemms, name);
  if (rule == nullptr) return std::nullopt;
  const TensorDims* left = tensor(shape, rule->left);
  const TensorDims* right = tensor(shape, rule->right);
  if (left == nullptr || right == nullptr || left->size() < 2 || elements(*left) == 0 ||
      elements(*right) == 0)
    return std::nullopt;
  GemmDims gemm;
  gemm.k = left->back();
  if (rule->transposed) {  // all leading dimensions of the input are rows
    gemm.m = elements(*left) / gemm.k;
    gemm.n = right->front();
    return right->size() == 2 && right->back() == gemm.k ? std::optional(gemm) : std::nullopt;
  }
  const bool batched = left->size() == 3;
  if (left->size() != right->size() || left->size() > 3) return std::nullopt;
  if (batched && left->front() != right->front()) return std::nullopt;
  gemm.batch = batched ? left->front() : 1;
  gemm.m = (*left)[left->size() - 2];
  gemm.n = right->back();
  return (*right)[right->size() - 2] == gemm.k ? std::optional(gemm) : std::nullopt;
}

// The forward is y = x w with x of [m, k] and w of [k, n]. The gradient of x, dy w^T, is a product
// over n with [m, k] results; the gradient of w, x^T dy, is a product over m with [k, n] results.
// PyTorch may compute either one transposed, so both orders of the results are accepted.
std::optional<Gemm> backward_gemm(const GemmDims& gemm, const GemmDims& forward, bool first) {
  const auto holds = [&](std::int64_t one, std::int64_t other) {
    return (gemm.m == one && gemm.n == other) || (gemm.m == other && gemm.n == one);
  };
  if (gemm.batch != forward.batch) return std::nullopt;
  const bool data = gemm.k == forward.n && holds(forward.m, forward.k);
  const bool weight = gemm.k == forward.m && holds(forward.n, forward.k);
  if (data && (first || !weight)) {
    return Gemm{.m = forward.m,
                .n = forward.k,
                .k = forward.n,
                .batch = forward.batch,
                .pass = GemmPass::DataGrad};
  }
  if (!weight) return std::nullopt;
  return Gemm{.m = forward.n,
              .n = forward.k,
              .k = forward.m,
              .batch = forward.batch,
              .pass = GemmPass::WeightGrad};
}

ShapedKernel attention_kernel(std::string_view name, const TracedShape& shape, DataType dtype) {
  const AttentionRule& rule = *rule_of(kAttention, name);
  const TensorDims* query = tensor(shape, rule.query);
  const TensorDims* key = tensor(shape, rule.query + 1);
  const TensorDims* value = tensor(shape, rule.query + 2);
  if (query == nullptr || key == nullptr || value == nullptr)
    return without("attention without shapes");
  if (query->size() == 3)
    return without(
        "attention of packed sequences, whose lengths are not in "
        "the trace");
  if (query->size() != 4 || key->size() != 4 || value->size() != 4 || elements(*query) == 0 ||
      elements(*key) == 0 || elements(*value) == 0)
    return without("attention with other shapes than [batch, heads, sequence, width]");
  if (const std::string* window = scalar(shape, rule.window);
      rule.window > 0 && window != nullptr && *window != "-1")
    return without("attention with a window");
  const std::size_t heads = rule.heads_first ? 1 : 2;
  const std::size_t length = rule.heads_first ? 2 : 1;
  Attention attention{.batch = (*query)[0],
                      .query_heads = (*query)[heads],
                      .kv_heads = (*key)[heads],
                      .query_length = (*query)[length],
                      .kv_length = (*key)[length],
                      .head_dim_qk = (*query)[3],
                      .head_dim_v = (*value)[3],
                      .backward = rule.backward,
                      .dtype = dtype};
  const std::string* causal = scalar(shape, rule.causal);
  attention.causal = causal == nullptr || *causal == "True" || *causal == "true" || *causal == "1";
  // Causal: a query meets the keys up to its own position, s (s + 1) / 2 pairs.
  const std::int64_t square = attention.query_length * attention.kv_length;
  if (attention.causal && attention.query_length != attention.kv_length)
    return without("causal attention of fewer queries than keys");
  attention.pairs = attention.causal ? (square + attention.query_length) / 2 : square;
  return {.kernel = attention, .reason = {}, .assumed_causal = causal == nullptr};
}

ShapedKernel memory_bound_kernel(std::string_view name, const TracedShape& shape, double width) {
  const MemoryRule& rule = *rule_of(kMemoryBound, name);
  MemoryBoundKind kind = rule.kind;
  Traffic largest;
  double bytes = kind == ShapeKind::Embedding ? lookup_bytes(shape, width) : 0.0;
  for (const std::int8_t input : rule.reads) {
    const Traffic read = traffic_of(shape, input, width);
    bytes += read.bytes;
    if (read.elements > largest.elements) largest = read;
  }
  const Traffic written = rule.writes == kLargest ? largest : traffic_of(shape, rule.writes, width);
  bytes += written.bytes;
  if (bytes < 1.0 || bytes > kMostElements) return without("an operation without shapes");
  // A copy that keeps the precision only moves.
  if (kind == ShapeKind::Cast && written.width == largest.width) kind = ShapeKind::Elementwise;
  return {.kernel = MemoryBound{.kind = kind, .bytes = std::llround(bytes), .launches = 1},
          .reason = {},
          .assumed_causal = false};
}

}  // namespace trainyard
