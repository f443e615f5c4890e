#include <fmt/format.h>

#include <array>
#include <cmath>

#include "kernels/bench/measure.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "kernels/bench/random_value.hpp"
#include "kernels/bench/reference.hpp"
#include "kernels/bench/row_kernels.hpp"

namespace trainyard::bench {

namespace {

constexpr std::uint64_t x_seed = 4;
constexpr std::uint64_t second_seed = 5;
constexpr std::uint64_t weight_seed = 6;
constexpr std::uint64_t momentum_seed = 7;

bool is_adam(const RowKernel& k) { return k.operation == RowOperation::Adam; }
// Adam's gradients and the input of a cast are fp32; all other operands are bf16.
DataType operand_dtype(const RowKernel& k) {
  return is_adam(k) || k.operation == RowOperation::Cast ? DataType::Fp32 : DataType::Bf16;
}
std::int64_t x_columns(const RowKernel& k) {
  return k.operation == RowOperation::Swiglu ? 2 * k.columns : k.columns;
}
// Elements of the second operand: a weight, weight and bias, a table of angles, or a summand.
std::int64_t second_count(const RowKernel& k) {
  if (k.operation == RowOperation::RmsNorm) return k.columns;
  if (k.operation == RowOperation::LayerNorm) return 2 * k.columns;
  if (k.operation == RowOperation::Rope) return k.rows * rope_head_columns;
  return k.operation == RowOperation::Add ? k.rows * k.columns : 1;
}

// Only Adam has state; for other kernels these buffers have one byte.
struct RowMemory {
  explicit RowMemory(const RowKernel& k)
      : x(k.rows * x_columns(k) * (operand_dtype(k) == DataType::Fp32 ? 4 : 2)),
        second(second_count(k) * 2),
        result(k.rows * k.columns * 2),
        weight(is_adam(k) ? k.rows * k.columns * 4 : 1),
        momentum(is_adam(k) ? k.rows * k.columns * 4 : 1),
        variance(is_adam(k) ? k.rows * k.columns * 4 : 1) {}
  [[nodiscard]] RowOperands operands() const {
    return {x.get(), second.get(), result.get(), weight.get(), momentum.get(), variance.get()};
  }
  DeviceMemory x, second, result, weight, momentum, variance;
};

void fill(const Bench& bench, const RowKernel& k, const RowMemory& memory) {
  const auto random = [&bench](const DeviceMemory& into, std::int64_t count, DataType dtype,
                               std::uint64_t seed) {
    check(fill_random({into.get(), count, dtype, seed}, bench.watch.stream()), "filling operands");
  };
  random(memory.x, k.rows * x_columns(k), operand_dtype(k), x_seed);
  random(memory.second, second_count(k), DataType::Bf16, second_seed);
  if (!is_adam(k)) return;
  random(memory.weight, k.rows * k.columns, DataType::Fp32, weight_seed);
  random(memory.momentum, k.rows * k.columns, DataType::Fp32, momentum_seed);
  // A variance is never negative, and it is zero before the first step, so it is not random.
  check(cudaMemsetAsync(memory.variance.get(), 0, memory.variance.bytes(), bench.watch.stream()),
        "filling operands");
}

std::vector<double> operand_row(DataType dtype, std::uint64_t seed, std::int64_t first,
                                std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = first; i < first + count; ++i)
    values.push_back(reference::rounded(dtype, static_cast<double>(random_value(seed, i))));
  return values;
}

// One row of the result, computed on the CPU from the operands' seeds.
std::vector<double> expected_row(const RowKernel& k, std::int64_t row) {
  const bool permutes = k.operation == RowOperation::Permute;
  const std::int64_t from = permutes || k.operation == RowOperation::Embedding
                                ? gathered_row(permutes, row, k.rows)
                                : row;
  std::vector<double> x = operand_row(operand_dtype(k), x_seed, from * x_columns(k), x_columns(k));
  const std::int64_t first = row * k.columns;
  switch (k.operation) {
    case RowOperation::Copy:
    case RowOperation::Embedding:
    case RowOperation::Permute:
    case RowOperation::Cast:
      return x;
    case RowOperation::Rope:
      return reference::rope_row(
          x, operand_row(DataType::Bf16, second_seed, row * rope_head_columns, rope_head_columns));
    case RowOperation::CrossEntropy:
      return reference::cross_entropy_gradient_row(x, static_cast<std::size_t>(row % k.columns));
    case RowOperation::Add: {
      const auto second = operand_row(DataType::Bf16, second_seed, first, k.columns);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += second[i];
      return x;
    }
    case RowOperation::RmsNorm:
      return reference::rms_norm_row(x, operand_row(DataType::Bf16, second_seed, 0, k.columns));
    case RowOperation::LayerNorm:
      return reference::layer_norm_row(x,
                                       operand_row(DataType::Bf16, second_seed, 0, 2 * k.columns));
    case RowOperation::Swiglu:
      return reference::swiglu_row(x);
    case RowOperation::Softmax:
      return reference::softmax_row(x);
    case RowOperation::Adam: {
      const auto weight = operand_row(DataType::Fp32, weight_seed, first, k.columns);
      const auto momentum = operand_row(DataType::Fp32, momentum_seed, first, k.columns);
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = reference::adam_step({weight[i], momentum[i], 0.0}, x[i]).weight;
      return x;
    }
  }
  return {};
}

// Absolute tolerance for cancellation: RoPE subtracts products of up to 12, a LayerNorm subtracts
// means and adds a bias, and the gradient at a target is a softmax minus one.
double absolute_tolerance(const RowKernel& k) {
  const bool cancels = k.operation == RowOperation::Rope ||
                       k.operation == RowOperation::LayerNorm ||
                       k.operation == RowOperation::CrossEntropy;
  return cancels ? 1e-5 : 1e-9;
}

// bf16 results have 8 significant bits (rounding changes them by 2^-9 of the value); GPU
// exponentials and roots add much less. Adam's weights are stored in fp32, and Adam divides by
// roots of small squares.
void check_row(const RowKernel& k, const RowMemory& memory, std::int64_t row) {
  const std::vector<double> expected = expected_row(k, row);
  const StoredRange range{.dtype = is_adam(k) ? DataType::Fp32 : DataType::Bf16,
                          .first = row * k.columns,
                          .count = k.columns};
  const auto computed = read_stored(is_adam(k) ? memory.weight : memory.result, range);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double tolerance = is_adam(k)
                                 ? 1e-5 * (1.0 + std::abs(expected[i]))
                                 : std::ldexp(std::abs(expected[i]), -8) + absolute_tolerance(k);
    if (!(std::abs(computed[i] - expected[i]) <= tolerance))
      throw WrongResult(fmt::format("row {} column {} is {}, the reference says {}", row, i,
                                    computed[i], expected[i]));
  }
}

// Refuses shapes that the kernels, which load 8 columns at once, do not support.
void refuse_odd_shapes(const RowKernel& k) {
  const bool reduces = k.operation == RowOperation::RmsNorm ||
                       k.operation == RowOperation::LayerNorm ||
                       k.operation == RowOperation::Softmax;
  if (k.columns % 8 != 0) throw Unsupported("columns must be divisible by 8");
  if (k.operation == RowOperation::Rope && k.columns % rope_head_columns != 0)
    throw Unsupported("columns must be whole heads of 128");
  if (reduces && k.columns > row_columns_most)
    throw Unsupported(fmt::format("rows of more than {} columns", row_columns_most));
}

}  // namespace

MeasuredRow measure_rows(const Bench& bench, const RowKernel& kernel) {
  refuse_odd_shapes(kernel);
  const RowMemory memory(kernel);
  fill(bench, kernel, memory);
  const auto run = [&] {
    check(launch_row_kernel(kernel, memory.operands(), bench.watch.stream()), "launching a kernel");
  };
  run();
  bench.watch.wait();
  for (const std::int64_t row : std::array{std::int64_t{0}, kernel.rows / 2, kernel.rows - 1})
    check_row(kernel, memory, row);
  bench.watch.warm_up(run);
  return {kernel, spread_of(bench.watch.times_us(run, timed_runs)), ""};
}

}  // namespace trainyard::bench
