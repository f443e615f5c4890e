#include "models/framework_times.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "models/framework_file.hpp"
#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr double kTimesMost = 20.0;
constexpr double kLossMost = 0.9;
constexpr double kPassesMost = 1000.0;

// {"value": ..., "source": ...}; `otherwise` where it is not there.
double figure(JsonObject& object, const char* key, double otherwise, const NumberRule& rule) {
  return object.has(key) ? sourced(object, key).number("value", rule) : otherwise;
}

}  // namespace

double FrameworkTimes::as_wide(const Kernel& kernel) const {
  if (const auto* product = std::get_if<Gemm>(&kernel))
    return product->dtype == DataType::Fp8 ? fp8_gemm : gemm;
  if (const auto* products = std::get_if<GroupedGemm>(&kernel)) {
    if (!products->per_expert) return 1.0;
    return products->dtype == DataType::Fp8 ? fp8_grouped_gemm : grouped_gemm;
  }
  if (const auto* block = std::get_if<Attention>(&kernel))
    return block->of_ring ? ring_attention : block->backward ? attention_backward : attention;
  return memory_bound;
}

double FrameworkTimes::narrower(const Kernel& kernel) const {
  const auto* product = std::get_if<Gemm>(&kernel);
  const auto* products = std::get_if<GroupedGemm>(&kernel);
  const bool narrow = (product != nullptr && product->dtype == DataType::Fp8) ||
                      (products != nullptr && products->dtype == DataType::Fp8);
  return narrow ? four_bit_share : 1.0;
}

std::int64_t FrameworkTimes::ring_bytes(const Kernel& kernel) const {
  const auto* block = std::get_if<Attention>(&kernel);
  if (block == nullptr || !block->of_ring) return 0;
  const double numbers = static_cast<double>(block->batch * block->query_heads) *
                         static_cast<double>(block->query_length * block->head_dim_qk);
  return std::llround(ring_passes * numbers * element_bytes(block->dtype));
}

double FrameworkTimes::beside_exchanges(const Kernel& kernel, std::int64_t sms,
                                        double compute_loss) const {
  TY_CHECK(exchange_sms < sms, exchange_sms, sms);
  const bool on_sms = std::holds_alternative<Gemm>(kernel) ||
                      std::holds_alternative<GroupedGemm>(kernel) ||
                      std::holds_alternative<Attention>(kernel);
  if (!on_sms) return 1.0;
  const double share = static_cast<double>(exchange_sms) / static_cast<double>(sms);
  return 1.0 / (1.0 - std::min(share * compute_loss, kLossMost));
}

FrameworkTimes load_framework_times(const std::string& name, const std::string& generation) {
  JsonFile file = framework_file(name);
  JsonObject root = file.root();
  // framework.hpp reads the others, and refuses strange ones.
  for (const std::string& key : root.keys())
    if (key != "kernel_time" && key != "exchange_sms") root.ignore(key);
  FrameworkTimes times;
  if (root.has("exchange_sms")) {
    times.exchange_sms = sourced(root, "exchange_sms").integer("value", {.least = 0, .most = 64});
  }
  if (root.has("kernel_time")) {
    JsonObject all = root.object("kernel_time");
    for (const std::string& key : all.keys())
      if (key != generation) all.ignore(key);
    if (all.has(generation)) {
      JsonObject own = all.object(generation);
      const NumberRule rule{.least = 1.0 / kTimesMost, .most = kTimesMost};
      times.gemm = figure(own, "gemm", 1.0, rule);
      times.fp8_gemm = figure(own, "fp8_gemm", times.gemm, rule);
      times.grouped_gemm = figure(own, "grouped_gemm", 1.0, rule);
      times.fp8_grouped_gemm = figure(own, "fp8_grouped_gemm", times.grouped_gemm, rule);
      times.attention = figure(own, "attention", 1.0, rule);
      times.attention_backward = figure(own, "attention_backward", times.attention, rule);
      times.ring_attention = figure(own, "ring_attention", times.attention, rule);
      times.ring_passes = figure(own, "ring_passes", 0.0, {.least = 0.0, .most = kPassesMost});
      times.memory_bound = figure(own, "memory_bound", 1.0, rule);
      times.fp4_gemm = figure(own, "fp4_gemm", 1.0, rule);
    }
  }
  file.finish();
  return times;
}

AttentionTimes load_memory_efficient_times(const std::string& generation) {
  JsonFile file = JsonFile::read(data_file("models/attention", "memory_efficient"));
  JsonObject root = file.root();
  static_cast<void>(root.text("title"));
  JsonObject all = root.object("generations");
  if (!all.has(generation))
    throw InputError(Problem{"", "/training/attention",
                             fmt::format("nothing is measured of memory_efficient kernels on GPUs "
                                         "of generation {} (known: {})",
                                         generation, fmt::join(all.keys(), ", ")),
                             "choose flash, or add what they take over the profile's kernels to "
                             "models/attention/memory_efficient.json"});
  for (const std::string& key : all.keys())
    if (key != generation) all.ignore(key);
  JsonObject own = all.object(generation);
  const NumberRule rule{.least = 1.0 / kTimesMost, .most = kTimesMost};
  const AttentionTimes times{.forward = sourced(own, "forward").number("value", rule),
                             .backward = sourced(own, "backward").number("value", rule)};
  file.finish();
  return times;
}

}  // namespace trainyard
