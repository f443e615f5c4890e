#include "sim/workload/kernel_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Limits far above any machine, small enough that results derived from them fit into 64 bits.
constexpr std::int64_t kSizeMost = 1LL << 61;
constexpr std::int64_t kRowsMost = 1LL << 40;
constexpr double kBytesOfKernelMost = 0x1p60;

struct Writer {
  Json operator()(const Gemm& g) const {
    return {{"kind", "gemm"},
            {"m", g.m},
            {"n", g.n},
            {"k", g.k},
            {"batch", g.batch},
            {"dtype", to_string(g.dtype)},
            {"pass", to_string(g.pass)},
            {"accumulate_fp32", g.accumulate_fp32}};
  }
  Json operator()(const GroupedGemm& g) const {
    return {{"kind", "grouped_gemm"},
            {"rows", g.rows},
            {"n", g.n},
            {"k", g.k},
            {"dtype", to_string(g.dtype)},
            {"pass", to_string(g.pass)},
            {"accumulate_fp32", g.accumulate_fp32},
            {"per_expert", g.per_expert}};
  }
  Json operator()(const Attention& a) const {
    Json json{{"kind", "attention"},
              {"batch", a.batch},
              {"query_heads", a.query_heads},
              {"kv_heads", a.kv_heads},
              {"query_length", a.query_length},
              {"kv_length", a.kv_length},
              {"head_dim_qk", a.head_dim_qk},
              {"head_dim_v", a.head_dim_v},
              {"pairs", a.pairs},
              {"causal", a.causal},
              {"backward", a.backward},
              {"dtype", to_string(a.dtype)},
              {"of_ring", a.of_ring}};
    if (a.longest_keys > 0) json["longest_keys"] = a.longest_keys;
    return json;
  }
  Json operator()(const MemoryBound& m) const {
    return {{"kind", "memory_bound"},
            {"what", to_string(m.kind)},
            {"bytes", m.bytes},
            {"launches", m.launches}};
  }
  Json operator()(const Copy& c) const {
    return {{"kind", "copy"}, {"direction", to_string(c.kind)}, {"bytes", c.bytes}};
  }
  Json operator()(const Recorded& r) const {
    return {{"kind", "recorded"},
            {"seconds", r.seconds},
            {"flops", r.flops},
            {"bytes", r.bytes},
            {"dtype", to_string(r.dtype)}};
  }
};

DataType read_dtype(JsonObject& object) {
  return read_enumerator(object, "dtype", DataType::Fp8, std::optional(DataType::Bf16));
}

GemmPass read_pass(JsonObject& object) {
  return read_enumerator(object, "pass", GemmPass::WeightGrad, std::optional(GemmPass::Forward));
}

std::int64_t extent(JsonObject& object, std::string_view key) {
  return object.integer(key, {.least = 1});
}

Kernel read_gemm(JsonObject& object) {
  return Gemm{.m = extent(object, "m"),
              .n = extent(object, "n"),
              .k = extent(object, "k"),
              .batch = object.integer("batch", {.fallback = 1, .least = 1}),
              .dtype = read_dtype(object),
              .pass = read_pass(object),
              .accumulate_fp32 = object.boolean("accumulate_fp32", false)};
}

Kernel read_grouped_gemm(JsonObject& object) {
  GroupedGemm gemm;
  const Json& rows = object.raw("rows");
  if (!rows.is_array()) object.report("rows", "must be an array of whole numbers");
  for (std::size_t i = 0; rows.is_array() && i < rows.size(); ++i) {
    const Json& row = rows[i];
    if (row.is_number_unsigned() && row.get<std::uint64_t>() <= kRowsMost) {
      gemm.rows.push_back(row.get<std::int64_t>());
    } else {
      object.report("rows", fmt::format("rows of expert {} cannot be {}", i, shown(row)));
    }
  }
  gemm.n = extent(object, "n");
  gemm.k = extent(object, "k");
  gemm.dtype = read_dtype(object);
  gemm.pass = read_pass(object);
  gemm.accumulate_fp32 = object.boolean("accumulate_fp32", false);
  gemm.per_expert = object.boolean("per_expert", false);
  return gemm;
}

Kernel read_attention(JsonObject& object) {
  return Attention{.batch = object.integer("batch", {.fallback = 1, .least = 1}),
                   .query_heads = extent(object, "query_heads"),
                   .kv_heads = extent(object, "kv_heads"),
                   .query_length = extent(object, "query_length"),
                   .kv_length = extent(object, "kv_length"),
                   .head_dim_qk = extent(object, "head_dim_qk"),
                   .head_dim_v = extent(object, "head_dim_v"),
                   .pairs = extent(object, "pairs"),
                   .causal = object.boolean("causal", false),
                   .backward = object.boolean("backward", false),
                   .dtype = read_dtype(object),
                   .longest_keys = object.integer("longest_keys", {.fallback = 0, .least = 0}),
                   .of_ring = object.boolean("of_ring", false)};
}

Kernel read_memory_bound(JsonObject& object) {
  return MemoryBound{
      .kind = read_enumerator<MemoryBoundKind>(object, "what", MemoryBoundKind::Zero),
      .bytes = read_size(object, "bytes", 0),
      .launches = object.integer("launches", {.fallback = 1, .least = 1})};
}

Kernel read_copy(JsonObject& object) {
  return Copy{.kind = read_enumerator<CopyKind>(object, "direction", CopyKind::DeviceToHost),
              .bytes = read_size(object, "bytes", 0)};
}

Kernel read_recorded(JsonObject& object) {
  return Recorded{.seconds = object.number("seconds", {.fallback = 0.0, .least = 0.0}),
                  .flops = object.integer("flops", {.fallback = 0, .least = 0}),
                  .bytes = object.integer("bytes", {.fallback = 0, .least = 0, .most = kSizeMost}),
                  .dtype = read_dtype(object)};
}

struct KernelReader {
  std::string_view kind;
  Kernel (*read)(JsonObject&);
};
constexpr KernelReader kReaders[] = {
    {"gemm", read_gemm},           {"grouped_gemm", read_grouped_gemm},
    {"attention", read_attention}, {"memory_bound", read_memory_bound},
    {"copy", read_copy},           {"recorded", read_recorded}};

}  // namespace

Json kernel_to_json(const Kernel& kernel) { return std::visit(Writer{}, kernel); }

Kernel read_kernel(JsonObject& object) {
  std::vector<std::string> kinds;
  for (const KernelReader& reader : kReaders) kinds.emplace_back(reader.kind);
  const std::string kind = object.choice("kind", kinds);
  for (const KernelReader& reader : kReaders) {
    if (reader.kind != kind) continue;
    const Kernel kernel = reader.read(object);
    if (const double bytes = hbm_bytes(kernel).value(); bytes > kBytesOfKernelMost)
      object.report(
          "kind", fmt::format("a {} of {:.3g} bytes", kind, bytes),
          fmt::format("a kernel moves at most {:.3g}: choose a smaller shape", kBytesOfKernelMost));
    return kernel;
  }
  // choice() has reported the unknown kind.
  return Gemm{};
}

// Reads a number of bytes, or a text with a unit. A double represents whole numbers up to 2^53.
std::int64_t read_size(JsonObject& object, std::string_view key, std::int64_t least) {
  if (!object.raw(key).is_string())
    return object.integer(key, {.least = std::max(least, -kSizeMost), .most = kSizeMost});
  const double bytes = object.bytes(key).value();
  if (bytes != std::trunc(bytes) || bytes > 0x1p53) {
    object.report(key, fmt::format("{} bytes is not a whole number below 2^53", bytes));
    return 0;
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace trainyard
