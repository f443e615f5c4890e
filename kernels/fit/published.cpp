#include "kernels/fit/published.hpp"

#include <nlohmann/json.hpp>

#include "sim/base/files.hpp"

namespace trainyard::fit {

namespace {

using nlohmann::json;

GemmPass pass_of(const std::string& layout) {
  if (layout.find("dgrad") != std::string::npos) return GemmPass::DataGrad;
  if (layout.find("wgrad") != std::string::npos) return GemmPass::WeightGrad;
  return GemmPass::Forward;
}

std::string text_of(const json& row, const char* key) {
  return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : "";
}

PublishedProduct product_of(const json& row) {
  PublishedProduct product{.gpu = row["gpu"],
                           .source = row["source"]["repo"],
                           .gemm = {.m = row["M"], .n = row["N"], .k = row["K"]},
                           .seconds = row["time_us"].get<double>() * 1e-6};
  product.gemm.pass = pass_of(text_of(row, "layout"));
  const bool accumulates = text_of(row, "accumulate") == "True";
  product.gemm.accumulate_fp32 = accumulates && text_of(row, "out_dtype") == "fp32";
  product.adds_to_half = accumulates && !product.gemm.accumulate_fp32;
  return product;
}

// The value after "name=" in "batch=1, seq_len=4096, ...".
std::int64_t field(const std::string& shape, const std::string& name) {
  return std::stoll(shape.substr(shape.find(name + "=") + name.size() + 1));
}

// "ng=160, M=154, N=3072, K=5120, ..., main_grad_dtype=fp32, stage=bwd_grad_w, accumulate=True":
// N and K are those of the forward product y[M, N] = x[M, K] W[K, N].
PublishedExperts experts_of(const json& row) {
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

PublishedAttention attention_of(const json& row) {
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

bool half_precision(const json& row) { return row["dtype"] == "bf16" || row["dtype"] == "fp16"; }

}  // namespace

Published read_published(const std::filesystem::path& file) {
  Published published;
  for (const json& row : json::parse(read_file(file))) {
    const std::string kind = row["kind"];
    if (kind == "gemm" && half_precision(row) && row.contains("time_us"))
      published.products.push_back(product_of(row));
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

}  // namespace trainyard::fit
