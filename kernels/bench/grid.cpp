#include "kernels/bench/grid.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "kernels/bench/measured_profile.hpp"

namespace trainyard::bench {

namespace {

using Extents = std::initializer_list<std::int64_t>;

// Linear layers under tensor parallelism: (n, k) of one rank's weight.
struct Weight {
  std::int64_t n;
  std::int64_t k;
};
constexpr std::array weights = {Weight{1024, 4096},  Weight{4096, 1024},  Weight{1280, 8192},
                                Weight{8192, 1024},  Weight{6144, 4096},  Weight{4096, 4096},
                                Weight{7168, 8192},  Weight{8192, 3584},  Weight{14336, 4096},
                                Weight{4096, 14336}, Weight{12288, 3072}, Weight{8192, 8192}};

// The three GEMMs of a linear layer: forward, gradient of the input, and gradient of the weight,
// which accumulates in fp32.
void add_passes(std::vector<Task>& tasks, std::int64_t tokens, const Weight& w, DataType dtype) {
  tasks.emplace_back(Gemm{.m = tokens, .n = w.n, .k = w.k, .dtype = dtype});
  tasks.emplace_back(
      Gemm{.m = tokens, .n = w.k, .k = w.n, .dtype = dtype, .pass = GemmPass::DataGrad});
  tasks.emplace_back(Gemm{.m = w.n,
                          .n = w.k,
                          .k = tokens,
                          .dtype = dtype,
                          .pass = GemmPass::WeightGrad,
                          .accumulate_fp32 = true});
}

void add_cubes(std::vector<Task>& tasks, const Extents& extents, DataType dtype) {
  for (const std::int64_t m : extents)
    for (const std::int64_t n : extents)
      for (const std::int64_t k : extents) {
        // Very elongated shapes occur in no model and cost the most.
        if (std::max({m, n, k}) > 64 * std::min({m, n, k})) continue;
        tasks.emplace_back(Gemm{.m = m, .n = n, .k = k, .dtype = dtype});
      }
}

void add_default_gemms(std::vector<Task>& tasks) {
  add_cubes(tasks, {64, 128, 256, 512, 1024, 2048, 4096, 8192}, DataType::Bf16);
  add_cubes(tasks, {128, 512, 1024, 2048, 4096, 8192}, DataType::Fp8);
  add_cubes(tasks, {1024, 4096}, DataType::Fp16);
  add_cubes(tasks, {1024, 4096}, DataType::Tf32);
  for (const Weight& weight : weights) {
    for (const std::int64_t tokens : {512, 2048, 4096, 8192})
      add_passes(tasks, tokens, weight, DataType::Bf16);
    add_passes(tasks, 4096, weight, DataType::Fp8);
  }
  for (const Epilogue epilogue : {Epilogue::Bias, Epilogue::GeluBias})
    for (const std::int64_t n : {1024, 4096, 16384})
      tasks.emplace_back(FusedGemm{.epilogue = epilogue, .gemm = {.m = 8192, .n = n, .k = 4096}});
  // Unfused attention (scores and values of 32 to 128 heads) and equally loaded experts.
  for (const std::int64_t batch : {8, 32, 128})
    for (const std::int64_t length : {512, 2048}) {
      tasks.emplace_back(Gemm{.m = length, .n = length, .k = 128, .batch = batch});
      tasks.emplace_back(
          Gemm{.m = length, .n = 128, .k = length, .batch = batch, .pass = GemmPass::DataGrad});
    }
}

// The experts of one rank, evenly and unevenly loaded; both GEMMs and their gradients, in one
// launch and, evenly loaded, one GEMM after another with gradients that accumulate in fp32.
void add_experts(std::vector<Task>& tasks, std::int64_t experts, std::int64_t rows,
                 const Weight& weight, DataType dtype = DataType::Bf16) {
  GroupedGemm gemm{.rows = std::vector<std::int64_t>(static_cast<std::size_t>(experts), rows),
                   .n = weight.n,
                   .k = weight.k,
                   .dtype = dtype};
  for (const GemmPass pass : {GemmPass::Forward, GemmPass::DataGrad, GemmPass::WeightGrad}) {
    gemm.pass = pass;
    tasks.emplace_back(gemm);
    GroupedGemm in_turn = gemm;
    in_turn.per_expert = true;
    in_turn.accumulate_fp32 = pass == GemmPass::WeightGrad;
    tasks.emplace_back(in_turn);
  }
  gemm.pass = GemmPass::Forward;
  // Uneven load: pairs of experts with 3/2 and 1/2 of the rows.
  for (std::size_t i = 0; i + 1 < gemm.rows.size(); i += 2) {
    gemm.rows[i] += rows / 2;
    gemm.rows[i + 1] -= rows / 2;
  }
  tasks.emplace_back(gemm);
}

// Whole sequences, forward and backward.
void add_attention(std::vector<Task>& tasks, Attention attention) {
  attention.kv_length = attention.query_length;
  attention.pairs = attention.causal ? attention.query_length * (attention.query_length + 1) / 2
                                     : attention.query_length * attention.kv_length;
  for (const bool backward : {false, true}) {
    attention.backward = backward;
    tasks.emplace_back(attention);
  }
}

void add_unfused(std::vector<Task>& tasks, const Attention& attention) {
  std::vector<Task> fused;
  add_attention(fused, attention);
  for (const Task& task : fused) tasks.emplace_back(UnfusedAttention{std::get<Attention>(task)});
}

struct Heads {
  std::int64_t query, kv, dim_qk, dim_v;
};
Attention attention_of(const Heads& heads, std::int64_t length) {
  return {.query_heads = heads.query,
          .kv_heads = heads.kv,
          .query_length = length,
          .head_dim_qk = heads.dim_qk,
          .head_dim_v = heads.dim_v};
}

// Heads of one rank: several sizes, grouped, those of latent attention (192 and 128), long
// sequences, and one without a mask; and unfused attention as a whole.
void add_attentions(std::vector<Task>& tasks) {
  constexpr Heads plain{32, 32, 128, 128}, grouped{32, 8, 128, 128}, one_group{8, 1, 128, 128};
  constexpr Heads small{32, 32, 64, 64}, latent{16, 16, 192, 128};
  for (const std::int64_t length : {512, 1024, 2048, 4096, 8192})
    for (const Heads& heads : {plain, grouped}) add_attention(tasks, attention_of(heads, length));
  for (const std::int64_t length : {4096, 8192, 32768})
    add_attention(tasks, attention_of(one_group, length));
  for (const Heads& heads : {small, latent})
    for (const std::int64_t length : {1024, 4096})
      add_attention(tasks, attention_of(heads, length));
  Attention unmasked = attention_of(plain, 2048);
  unmasked.causal = false;
  add_attention(tasks, unmasked);
  for (const std::int64_t length : {1024, 2048, 4096})
    add_unfused(tasks, attention_of(plain, length));
}

void add_rows(std::vector<Task>& tasks, const Extents& rows, const Extents& columns) {
  for (int i = 0; i <= static_cast<int>(RowOperation::Adam); ++i)
    for (const std::int64_t r : rows)
      for (const std::int64_t c : columns)
        tasks.emplace_back(
            RowKernel{.operation = static_cast<RowOperation>(i), .rows = r, .columns = c});
}

void add_copies(std::vector<Task>& tasks, std::int64_t largest, std::int64_t factor) {
  for (int i = 0; i <= static_cast<int>(CopyKind::DeviceToHost); ++i)
    for (std::int64_t bytes = 4096; bytes <= largest; bytes *= factor)
      tasks.emplace_back(Copy{.kind = static_cast<CopyKind>(i), .bytes = bytes});
}

void add_launches(std::vector<Task>& tasks, const Extents& counts) {
  for (int i = 0; i <= static_cast<int>(LaunchStyle::Graph); ++i)
    for (const std::int64_t count : counts)
      tasks.emplace_back(Launches{.style = static_cast<LaunchStyle>(i), .count = count});
}

// A rough time of one run in seconds, from about half the rates of an A100 (312 TFLOP/s in bf16).
// It serves only to estimate how long a measurement takes.
struct OneRun {
  double operator()(const Gemm& gemm) const {
    // Share of bf16's rate: tf32 has half, fp32 a sixteenth (it uses no tensor core); fp8 counts as
    // bf16.
    const double share = gemm.dtype == DataType::Fp32   ? 1.0 / 16
                         : gemm.dtype == DataType::Tf32 ? 0.5
                                                        : 1.0;
    return flops(gemm).value() / (312e12 * 0.5 * share) + hbm_bytes(gemm).value() / 1.3e12;
  }
  double operator()(const RowKernel& kernel) const {
    return static_cast<double>(as_memory_bound(kernel).bytes) / 1.3e12;
  }
  double operator()(const Copy& copy) const {
    return hbm_bytes(copy).value() / (copy.kind == CopyKind::DeviceToDevice ? 1.3e12 : 20e9);
  }
  double operator()(const Launches& launches) const {
    return 5e-6 * static_cast<double>(launches.count);
  }
  double operator()(const Interference& task) const {
    constexpr double held = 4e-3;  // about the time that the SMs are occupied, with waiting
    return 5.0 * (*this)(task.gemm) + held;
  }
  double operator()(const FusedGemm& task) const { return (*this)(task.gemm); }
  double operator()(const GroupedGemm& gemm) const {
    return flops(gemm).value() / (312e12 * 0.4) + hbm_bytes(gemm).value() / 1.3e12;
  }
  double operator()(const Attention& attention) const {
    return flops(attention).value() / (312e12 * 0.3) + hbm_bytes(attention).value() / 1.3e12;
  }
  double operator()(const UnfusedAttention& task) const {
    // Scores and weights cross memory about four times, and no GEMM skips the masked half.
    const Attention& a = task.attention;
    const double entries = static_cast<double>(a.batch * a.query_heads) *
                           static_cast<double>(a.query_length) * static_cast<double>(a.kv_length);
    return 2.0 * flops(a).value() / (312e12 * 0.4) + 4.0 * 2.0 * entries / 1.3e12;
  }
};

}  // namespace

std::vector<Task> grid_tasks(Grid grid) {
  std::vector<Task> tasks;
  if (grid == Grid::Default) {
    add_default_gemms(tasks);
    for (const std::int64_t rows : {64, 256, 1024})
      for (const Weight& weight : {Weight{4096, 7168}, Weight{7168, 2048}})
        for (const std::int64_t experts : {2, 8, 32}) add_experts(tasks, experts, rows, weight);
    for (const Weight& weight : {Weight{4096, 7168}, Weight{7168, 2048}})
      add_experts(tasks, 8, 512, weight, DataType::Fp8);
    add_attentions(tasks);
    add_rows(tasks, {512, 4096, 16384}, {1024, 4096, 8192, 14336});
    add_copies(tasks, std::int64_t{1} << 30, 4);
    add_launches(tasks, {10, 100, 1000});
    for (const std::int64_t sms : {4, 8, 16, 24, 32})
      for (const std::int64_t k : {1024, 8192})
        tasks.emplace_back(Interference{.sms = sms, .gemm = {.m = 8192, .n = 4096, .k = k}});
  } else {
    for (const DataType dtype : {DataType::Tf32, DataType::Bf16, DataType::Fp16, DataType::Fp8})
      add_passes(tasks, 1024, {.n = 2048, .k = 4096}, dtype);
    tasks.emplace_back(Gemm{.m = 512, .n = 512, .k = 128, .batch = 32});
    add_experts(tasks, 4, 256, {.n = 1024, .k = 2048});
    add_experts(tasks, 4, 256, {.n = 1024, .k = 2048}, DataType::Fp8);
    add_attention(tasks, attention_of({8, 2, 128, 128}, 2048));
    add_unfused(tasks, attention_of({8, 8, 128, 128}, 1024));
    add_rows(tasks, {4096}, {4096});
    add_copies(tasks, std::int64_t{64} << 20, 128);
    add_launches(tasks, {100});
    tasks.emplace_back(Interference{.sms = 16, .gemm = {.m = 4096, .n = 4096, .k = 1024}});
  }
  // Several lists may contain the same shape; it is measured once.
  std::vector<Task> unique;
  for (const Task& task : tasks)
    if (std::ranges::find(unique, task) == unique.end()) unique.push_back(task);
  return unique;
}

Seconds estimated_duration(const Task& task) {
  // Allocation, operands and the heuristic; and the check's sums on the CPU, at about 100 ns per
  // term. cuDNN compiles attention for the shape, which takes a second or two for each direction.
  const bool fused = std::holds_alternative<Attention>(task);
  const double preparation = fused ? 3.0 : 0.1;
  constexpr double checked_entries = 34;
  constexpr double flush = 150e-6;
  const auto* gemm = std::get_if<Gemm>(&task);
  const int runs =
      warm_up_runs + timed_runs + (gemm != nullptr ? algorithms_tried * trial_runs : 0);
  const double terms = gemm != nullptr ? checked_entries * static_cast<double>(gemm->k) : 0.0;
  return Seconds{preparation + 100e-9 * terms + runs * (std::visit(OneRun{}, task) + flush)};
}

}  // namespace trainyard::bench
