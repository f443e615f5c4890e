#include "kernels/fit/single_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/fit/samples.hpp"
#include "kernels/grouped_gemm.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard::fit {

namespace {

GemmPass pass_of(const std::string& layout) {
  if (layout.find("dgrad") != std::string::npos) return GemmPass::DataGrad;
  if (layout.find("wgrad") != std::string::npos) return GemmPass::WeightGrad;
  return GemmPass::Forward;
}

std::string text_of(const nlohmann::ordered_json& row, const char* key) {
  return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : "";
}

PublishedGemm gemm_of(const nlohmann::ordered_json& row) {
  PublishedGemm gemm{.gpu = row["gpu"],
                     .source = row["source"]["repo"],
                     .gemm = {.m = row["M"], .n = row["N"], .k = row["K"]},
                     .seconds = row["time_us"].get<double>() * 1e-6};
  gemm.gemm.pass = pass_of(text_of(row, "layout"));
  const bool accumulates = text_of(row, "accumulate") == "True";
  gemm.gemm.accumulate_fp32 = accumulates && text_of(row, "out_dtype") == "fp32";
  gemm.adds_to_half = accumulates && !gemm.gemm.accumulate_fp32;
  return gemm;
}

// The value after "name=" in "batch=1, seq_len=4096, ...".
std::int64_t field(const std::string& shape, const std::string& name) {
  return std::stoll(shape.substr(shape.find(name + "=") + name.size() + 1));
}

// Reads "ng=160, M=154, N=3072, K=5120, ..., main_grad_dtype=fp32, stage=bwd_grad_w,
// accumulate=True". N and K are those of the forward GEMM y[M, N] = x[M, K] W[K, N].
PublishedExperts experts_of(const nlohmann::ordered_json& row) {
  const std::string shape = row["shape"];
  const auto says = [&shape](const char* text) { return shape.find(text) != std::string::npos; };
  const auto experts = static_cast<std::size_t>(field(shape, "ng"));
  PublishedExperts read{.gpu = row["gpu"], .gemm = {}};
  GroupedGemm& gemm = read.gemm;
  gemm.rows.assign(experts, field(shape, " M"));
  gemm.n = field(shape, " N");
  gemm.k = field(shape, " K");
  gemm.per_expert = true;
  if (says("stage=bwd_grad_act")) {
    gemm.pass = GemmPass::DataGrad;
    std::swap(gemm.n, gemm.k);
  } else if (says("stage=bwd_grad_w")) {
    gemm.pass = GemmPass::WeightGrad;
    gemm.accumulate_fp32 = says(" accumulate=True") && says("main_grad_dtype=fp32");
    read.adds_to_half = says(" accumulate=True") && !gemm.accumulate_fp32;
  }
  read.seconds = flops(gemm).value() / (row["tflops"].get<double>() * 1e12);
  return read;
}

PublishedAttention attention_of(const nlohmann::ordered_json& row) {
  const std::string shape = row["shape"];
  // The source counts the full square; a causal kernel computes half of it.
  constexpr double causal = 0.5;
  return {.gpu = row["gpu"],
          .sequence = field(shape, "seq_len"),
          .heads = field(shape, "head_num") * field(shape, "batch"),
          .kv_heads = field(shape, "kv_head_num") * field(shape, "batch"),
          .head_dim_qk = field(shape, "qk_head_dim"),
          .head_dim_v = field(shape, "v_head_dim"),
          .backward = row["kind"] == "sdp_bwd",
          .flops_rate = row["tflops"].get<double>() * 1e12 * causal};
}

bool half_precision(const nlohmann::ordered_json& row) {
  return row["dtype"] == "bf16" || row["dtype"] == "fp16";
}

}  // namespace

Published read_published(const std::filesystem::path& file) {
  Published published;
  for (const nlohmann::ordered_json& row : parse_json(file.string(), read_file(file))) {
    const std::string kind = row["kind"];
    if (kind == "gemm" && half_precision(row) && row.contains("time_us"))
      published.gemms.push_back(gemm_of(row));
    else if (kind == "group_matmul" && half_precision(row))
      published.experts.push_back(experts_of(row));
    else if (kind == "sdp_fwd" || kind == "sdp_bwd")
      published.attentions.push_back(attention_of(row));
    else if (kind == "stream")
      published.streams.push_back({row["gpu"], row["op"], row["gbps"].get<double>() * 1e9});
    else if (kind == "gemm_mamf" && row["dtype"] == "bf16")
      published.bests.push_back({row["gpu"],
                                 {.m = row["M"], .n = row["N"], .k = row["K"]},
                                 row["time_us"].get<double>() * 1e-6});
    else if (kind == "launch_overhead" && row["time_us"].get<double>() > 0.0)
      published.launches.push_back({row["gpu"], row["time_us"].get<double>() * 1e-6});
  }
  return published;
}

namespace {

// A GEMM with fewer FLOPs is too short to heat the chip, and launch gaps would be counted as a
// lower clock.
constexpr double sustained_flops_least = 1e11;

// A loop over a shorter GEMM ends before the power limit has lowered the clock: forward GEMMs of
// 0.1 to 0.5 ms run at up to 1.46 PFLOP/s on a B200, longer ones at 1.06 to 1.2.
constexpr double settled_seconds_least = 0.5e-3;

// Query rows that fill every SM many times. With fewer rows, forward and backward differ in
// parallelism.
constexpr std::int64_t saturating_rows_least = std::int64_t{64} * 4096;

// Measured time over the model's time, both without the time of accumulating in fp32. That time is
// memory traffic, which the clock does not slow.
double ratio_of(const GpuSheet& sheet, const GemmModel& model, const PublishedGemm& row) {
  Gemm alone = row.gemm;
  alone.accumulate_fp32 = false;
  const double gemm = gemm_cost(sheet, model, alone).time.value();
  const double adding = gemm_cost(sheet, model, row.gemm).time.value() - gemm;
  return (row.seconds - adding) / gemm;
}

// The ratios of a GPU's GEMMs of one layout that took at least `seconds_least`.
std::vector<double> ratios_of(const GpuSheet& sheet, const GemmModel& model, const Published& rows,
                              std::string_view gpu, GemmPass pass, double seconds_least) {
  std::vector<double> ratios;
  for (const auto& row : rows.gemms) {
    if (row.gpu != gpu || row.gemm.pass != pass || row.adds_to_half) continue;
    if (flops(row.gemm).value() < sustained_flops_least || row.seconds < seconds_least) continue;
    ratios.push_back(ratio_of(sheet, model, row));
  }
  return ratios;
}

std::vector<double> settled_ratios(const GpuSheet& sheet, const GemmModel& model,
                                   const Published& rows, std::string_view gpu, GemmPass pass) {
  return ratios_of(sheet, model, rows, gpu, pass, settled_seconds_least);
}

std::string repository_of(const Published& rows, std::string_view gpu) {
  for (const auto& row : rows.gemms)
    if (row.gpu == gpu) return row.source;
  return "";
}

}  // namespace

// The time of a gradient layout relative to forward. Both are medians of measured over model time,
// so the shapes need not be the same.
Figure pass_time(const GpuSheet& sheet, const GemmModel& model, const Published& rows,
                 std::string_view gpu, GemmPass pass) {
  const auto forward = settled_ratios(sheet, model, rows, gpu, GemmPass::Forward);
  const auto gradient = settled_ratios(sheet, model, rows, gpu, pass);
  if (forward.empty() || gradient.empty()) return {1.0, "no rows with layouts"};
  return {median(gradient) / median(forward),
          fmt::format("{} {} against {} forward products of >= 0.5 ms on {}, {}", gradient.size(),
                      to_string(pass), forward.size(), gpu, repository_of(rows, gpu)),
          true};
}

namespace {

// The multiple of `step`, from 0 to 200, with the smallest error.
template <class Error>
double best_multiple(double step, const Error& error) {
  double best = 0.0;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= 200; ++i) {
    const double here = error(i * step);
    if (here >= least) continue;
    least = here;
    best = i * step;
  }
  return best;
}

// fp32 gradients are read and written, 8 bytes; 16-bit gradients take 4 bytes.
constexpr double further_bytes = 4.0;

// For each GEMM with fp32 accumulation, its excess over the median of the same GEMM with 16-bit
// accumulation.
std::vector<double> shares_of_pairs(const Published& rows, std::string_view gpu,
                                    BytesPerSecond hbm) {
  std::map<std::array<std::int64_t, 3>, std::vector<double>> in_half;
  const auto shape_of = [](const Gemm& g) { return std::array{g.m, g.n, g.k}; };
  for (const auto& row : rows.gemms)
    if (row.gpu == gpu && row.adds_to_half) in_half[shape_of(row.gemm)].push_back(row.seconds);
  std::vector<double> shares;
  for (const auto& row : rows.gemms) {
    const auto other = in_half.find(shape_of(row.gemm));
    if (row.gpu != gpu || !row.gemm.accumulate_fp32 || other == in_half.end()) continue;
    const Bytes further{further_bytes * static_cast<double>(row.gemm.m * row.gemm.n)};
    shares.push_back((row.seconds - median(other->second)) / (further / hbm).value());
  }
  return shares;
}

}  // namespace

// The first method needs pairs of measurements. The second searches the value that makes weight
// gradients as slow as data gradients.
Figure accumulation_exposed(const GpuSheet& sheet, GemmModel model, const Published& rows,
                            std::string_view gpu, double data_grad) {
  const auto shares = shares_of_pairs(rows, gpu, sheet.hbm);
  if (!shares.empty())
    return {std::clamp(median(shares), 0.0, 2.0),
            fmt::format("{} weight gradients on {} that add into fp32, over the same into 16 bits, "
                        "{}; of the further traffic at the data sheet's bandwidth",
                        shares.size(), gpu, repository_of(rows, gpu)),
            true};
  const auto forward = settled_ratios(sheet, model, rows, gpu, GemmPass::Forward);
  if (forward.empty() || settled_ratios(sheet, model, rows, gpu, GemmPass::WeightGrad).empty())
    return {1.0, "no weight gradients of a training framework"};
  Figure best{.source = fmt::format("with it, weight gradients on {} take as long as data "
                                    "gradients otherwise, {}",
                                    gpu, repository_of(rows, gpu)),
              .measured = true};
  constexpr double step = 0.01;
  best.value = best_multiple(step, [&](double exposed) {
    model.accumulation_exposed = exposed;
    const auto weight = settled_ratios(sheet, model, rows, gpu, GemmPass::WeightGrad);
    return std::abs(median(weight) / median(forward) - data_grad);
  });
  return best;
}

Figure issue_time(const GpuSheet& sheet, const GemmModel& model, const Published& rows,
                  std::string_view gpu) {
  struct Group {
    double predicted, measured;  // seconds of one expert
  };
  std::vector<Group> groups;
  for (const auto& row : rows.experts) {
    if (row.gpu != gpu || row.adds_to_half) continue;
    const auto experts = static_cast<double>(row.gemm.rows.size());
    const Gemm one = gemm_of_expert(row.gemm, row.gemm.rows.front());
    groups.push_back({gemm_cost(sheet, model, one).time.value(), row.seconds / experts});
  }
  if (groups.empty()) return {0.0, "no experts' products of a training framework"};
  constexpr double step = 1e-7;  // seconds
  // The model of an expert's time: its own time, but at least the time in which the host launches.
  const double issue = best_multiple(step, [&](double after) {
    double error = 0.0;
    for (const Group& group : groups)
      error += std::abs(std::log(std::max(after, group.predicted) / group.measured));
    return error;
  });
  return {issue,
          fmt::format("explains {} groups of experts' products on {} best, {}", groups.size(), gpu,
                      repository_of(rows, gpu)),
          true};
}

Figure sustained_time(const GpuSheet& sheet, const GemmModel& model, const Published& rows,
                      std::string_view gpu) {
  const auto ratios = ratios_of(sheet, model, rows, gpu, GemmPass::Forward, 0.0);
  if (ratios.empty()) return {1.0, "no products of layers run back to back"};
  // A sustained clock is never above the burst clock.
  return {std::max(1.0, median(ratios)),
          fmt::format("{} forward products of >= 1e11 FLOP in layers run back to back on {}, {}, "
                      "over the burst table",
                      ratios.size(), gpu, repository_of(rows, gpu)),
          true};
}

// Compares the FLOP rates of backward and forward for the same shape.
Figure backward_relative(const Published& rows, std::string_view gpu) {
  std::vector<double> ratios;
  for (const auto& forward : rows.attentions)
    for (const auto& backward : rows.attentions) {
      const bool pair = !forward.backward && backward.backward && forward.gpu == gpu &&
                        backward.gpu == gpu && forward.sequence == backward.sequence &&
                        forward.heads == backward.heads && forward.kv_heads == backward.kv_heads &&
                        forward.head_dim_qk == backward.head_dim_qk;
      const bool saturated = forward.heads * forward.sequence >= saturating_rows_least;
      if (pair && saturated && forward.head_dim_qk == 128)
        ratios.push_back(backward.flops_rate / forward.flops_rate);
    }
  if (ratios.empty()) return {0.8, "no pairs of forward and backward rows"};
  return {median(ratios),
          fmt::format(
              "{} pairs of forward and backward attention, head size 128, filling the GPU, on {}",
              ratios.size(), gpu),
          true};
}

Figure latent_time(const GpuSheet& sheet, const AttentionModel& model, const Published& rows,
                   std::string_view gpu, bool backward) {
  std::vector<double> ratios;
  for (const auto& row : rows.attentions) {
    const bool latent = row.gpu == gpu && row.backward == backward &&
                        row.head_dim_qk > row.head_dim_v &&
                        row.heads * row.sequence >= saturating_rows_least;
    if (!latent) continue;
    Attention a = table_attention(row.sequence, row.heads, row.head_dim_qk);
    a.kv_heads = row.kv_heads;
    a.head_dim_v = row.head_dim_v;
    a.backward = backward;
    const double rate = flops(a).value() / attention_cost(sheet, model, a).time.value();
    ratios.push_back(rate / row.flops_rate);
  }
  if (ratios.empty()) return {1.0, "no rows of latent attention"};
  return {median(ratios),
          fmt::format("{} rows of attention with wider keys than values that fill the GPU on {}, "
                      "{}, over the model's times",
                      ratios.size(), gpu, repository_of(rows, gpu)),
          true};
}

Figure best_gemm_time(const GpuSheet& sheet, const GemmModel& sibling, const Published& rows,
                      std::string_view gpu) {
  for (const auto& row : rows.bests) {
    if (row.gpu != gpu) continue;
    const double promised = gemm_cost(sheet, sibling, row.gemm).time.value();
    return {std::max(1.0, row.seconds / promised),
            fmt::format("fastest bf16 product of a shape search on {} (m {}, n {}, k {}), "
                        "stas00/ml-engineering compute/accelerator, over the sibling's efficiency",
                        gpu, row.gemm.m, row.gemm.n, row.gemm.k),
            true};
  }
  return {1.0, "no row of a shape search"};
}

Figure stream_share(const Published& rows, std::string_view gpu, double sheet_rate) {
  std::vector<double> shares;
  for (const auto& row : rows.streams)
    if (row.gpu == gpu && (row.operation == "scale" || row.operation == "triad"))
      shares.push_back(row.bytes_rate / sheet_rate);
  if (shares.empty()) return {0.85, "no STREAM rows"};
  return {std::min(1.0, median(shares)),
          fmt::format("STREAM scale and triad on {}, te42kyfo/gpu-benches gpu-stream", gpu), true};
}

Figure launch_floor(const Published& rows) {
  for (const auto& row : rows.launches)
    if (row.gpu.find("CUDA graph") != std::string::npos)
      return {row.seconds,
              fmt::format("back-to-back tiny kernels on {}, te42kyfo/gpu-benches gpu-small-kernels",
                          row.gpu),
              true};
  return {1e-6, "no launch rows"};
}

}  // namespace trainyard::fit
