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
  product.gemm.accumulate_fp32 =
      text_of(row, "accumulate") == "True" && text_of(row, "out_dtype") == "fp32";
  return product;
}

// The value after "name=" in "batch=1, seq_len=4096, ...".
std::int64_t field(const std::string& shape, const std::string& name) {
  return std::stoll(shape.substr(shape.find(name + "=") + name.size() + 1));
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
