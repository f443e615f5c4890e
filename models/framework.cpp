#include "models/framework.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "models/framework_file.hpp"
#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

// Reads {"value": true, "source": ...}; false where the key is not there.
bool truth(JsonObject& object, std::string_view key) {
  return object.has(key) && sourced(object, key).boolean("value", false);
}

// Each of several functions reads some keys of one object and ignores the others. load_framework
// rejects unknown keys.
void ignore_but(JsonObject& object, std::initializer_list<std::string_view> keys) {
  for (const std::string& key : object.keys())
    if (std::ranges::find(keys, std::string_view(key)) == keys.end()) object.ignore(key);
}

}  // namespace

// ---- memory

FrameworkMemory load_framework(const std::string& name) {
  JsonFile file = framework_file(name);
  JsonObject root = file.root();
  const auto bytes = [&root](std::string_view key) {
    return static_cast<std::int64_t>(std::llround(sourced(root, key).bytes("value").value()));
  };
  const auto share = [&root](std::string_view key) {
    return sourced(root, key).number("value", {.least = 0.0, .most = 1.0});
  };
  const auto count = [&root](std::string_view key, std::int64_t absent) -> std::int64_t {
    return root.has(key) ? sourced(root, key).integer("value", {.least = 0, .most = 100}) : absent;
  };
  static_cast<void>(root.text("title"));
  // The other functions of this file read these keys.
  for (const char* others :
       {"kernel_time", "dispatch_sms", "gradient_passes", "elementwise", "practices"})
    root.ignore(others);
  const FrameworkMemory memory{.context_bytes = bytes("context"),
                               .workspace_bytes = bytes("workspace"),
                               .channel_bytes = bytes("channel"),
                               .fragmentation = share("fragmentation"),
                               .gradient_placeholders = truth(root, "gradient_placeholders"),
                               .expert_row_copies = count("expert_row_copies", 0),
                               .gradient_buckets_in_flight = count("gradient_buckets_in_flight", 2),
                               .loss_copies = count("loss_copies", 1)};
  file.finish();
  return memory;
}

// ---- passes over gradients

// The settings of a scenario override those of the framework.
GradientPasses GradientPasses::with(GradientAverage own_average, GradientCheck own_check) const {
  GradientPasses chosen = *this;
  if (own_average != GradientAverage::Framework) chosen.average = own_average;
  if (own_check != GradientCheck::Framework) chosen.check = own_check;
  return chosen;
}

// HBM bytes per gradient element: a scaling kernel reads and writes it once.
// GradientAverage::Before skips the kernel for a single replica, which has nothing to average.
std::int64_t GradientPasses::scaling_bytes(std::int64_t replicas, std::int64_t width) const {
  const bool scaled = average == GradientAverage::BeforeAlways ||
                      (average == GradientAverage::Before && replicas > 1);
  return scaled ? 2 * width : 0;
}

GradientPasses load_gradient_passes(const std::string& name) {
  JsonFile file = framework_file(name);
  JsonObject root = file.root();
  ignore_but(root, {"gradient_passes"});
  GradientPasses passes;
  if (root.has("gradient_passes")) {
    JsonObject all = root.object("gradient_passes");
    if (truth(all, "scaled_by_kernel")) passes.average = GradientAverage::Before;
    if (truth(all, "checked_for_nan")) passes.check = GradientCheck::On;
    passes.unscale = truth(all, "unscaled_by_kernel");
    passes.accumulate = truth(all, "accumulated_by_kernel");
  }
  file.finish();
  return passes;
}

// ---- elementwise kernels

namespace {

constexpr std::int64_t kTouchesMost = 100;  // most reads and writes of a number by one operation

ElementwisePass read_pass(JsonObject object) {
  const IntegerRule times{.fallback = 0, .least = 0, .most = kTouchesMost};
  return {.narrow = object.integer("narrow", times),
          .wide = object.integer("wide", times),
          .launches = object.integer("launches", {.least = 1, .most = kTouchesMost})};
}

KeptTensors read_kept(JsonObject object) {
  const IntegerRule rule{.fallback = 0, .least = 0, .most = kTouchesMost};
  return {.narrow = object.integer("narrow", rule), .wide = object.integer("wide", rule)};
}

// Reads {"eager": {"forward": {...}, "backward": {...}, "kept": {...}}, "compiled": {...},
// "source": ...}. The operation stays unchanged where the key or the selected way of running it is
// absent.
void read_operation(JsonObject& all, const char* key, bool compiled,
                    ElementwiseOperation& operation) {
  if (!all.has(key)) return;
  JsonObject object = sourced(all, key);
  const char* way = compiled ? "compiled" : "eager";
  object.ignore(compiled ? "eager" : "compiled");
  if (!object.has(way)) return;
  JsonObject own = object.object(way);
  operation.forward = read_pass(own.object("forward"));
  operation.backward = read_pass(own.object("backward"));
  if (own.has("kept")) operation.kept = read_kept(own.object("kept"));
}

}  // namespace

ElementwiseKernels load_elementwise_kernels(const std::string& name, bool compiled) {
  JsonFile file = framework_file(name);
  JsonObject root = file.root();
  ignore_but(root, {"elementwise"});
  ElementwiseKernels kernels{.compiled = compiled};
  if (root.has("elementwise")) {
    JsonObject all = root.object("elementwise");
    read_operation(all, "rms_norm", compiled, kernels.rms_norm);
    read_operation(all, "layer_norm", compiled, kernels.layer_norm);
    read_operation(all, "rotary", compiled, kernels.rotary);
    read_operation(all, "activation", compiled, kernels.activation);
    read_operation(all, "gated_activation", compiled, kernels.gated_activation);
    kernels.repeated_heads = truth(all, "repeated_heads");
    kernels.separate_gemms = truth(all, "separate_gemms");
    kernels.sequence_copies = truth(all, "sequence_copies");
    kernels.keeps_gathered = truth(all, "keeps_gathered");
    kernels.recompute_stops_early = truth(all, "recompute_stops_early");
    kernels.joined_gradients = truth(all, "joined_gradients");
    if (all.has("loss_metrics"))
      kernels.loss_metrics = sourced(all, "loss_metrics").integer("value", {.least = 0, .most = 9});
  }
  file.finish();
  return kernels;
}

// ---- times of kernels

namespace {

constexpr double kTimesMost = 20.0;
// Limits the slowdown by dispatch_sms to a factor of 10.
constexpr double kLossMost = 0.9;
constexpr double kPassesMost = 1000.0;

constexpr const char* kAnyGeneration = "any_generation";

// The figures of one GPU generation: those of its own object, then those of any generation.
class GenerationFigures {
 public:
  GenerationFigures(JsonObject& all, const std::string& generation) {
    for (const std::string& name : {std::string(kAnyGeneration), generation})
      if (all.has(name)) objects_.push_back(all.object(name));
  }

  // Reads {"value": ..., "source": ...}; returns `otherwise` where no object has the key.
  double get(const char* key, double otherwise, const NumberRule& rule) {
    double value = otherwise;
    for (JsonObject& object : objects_)
      if (object.has(key)) value = sourced(object, key).number("value", rule);
    return value;
  }

 private:
  std::vector<JsonObject> objects_;  // later ones take precedence
};

}  // namespace

// The factor on the profile's time for this kind of kernel.
double FrameworkTimes::as_wide(const Kernel& kernel) const {
  if (const auto* matrices = std::get_if<Gemm>(&kernel))
    return matrices->dtype == DataType::Fp8 ? fp8_gemm : gemm;
  if (const auto* gemms = std::get_if<GroupedGemm>(&kernel)) {
    // The tables of grouped GEMMs are of single launches, so these need no factor.
    if (!gemms->per_expert) return 1.0;
    return gemms->dtype == DataType::Fp8 ? fp8_grouped_gemm : grouped_gemm;
  }
  if (const auto* block = std::get_if<Attention>(&kernel))
    return block->of_ring ? ring_attention : block->backward ? attention_backward : attention;
  return memory_bound;
}

double FrameworkTimes::narrower(const Kernel& kernel) const {
  const auto* matrices = std::get_if<Gemm>(&kernel);
  const auto* gemms = std::get_if<GroupedGemm>(&kernel);
  const bool narrow = (matrices != nullptr && matrices->dtype == DataType::Fp8) ||
                      (gemms != nullptr && gemms->dtype == DataType::Fp8);
  return narrow ? four_bit_share : 1.0;
}

// HBM bytes of the additional passes of ring attention, each over all numbers of the queries.
std::int64_t FrameworkTimes::ring_bytes(const Kernel& kernel) const {
  const auto* block = std::get_if<Attention>(&kernel);
  if (block == nullptr || !block->of_ring) return 0;
  const double numbers = static_cast<double>(block->batch * block->query_heads) *
                         static_cast<double>(block->query_length * block->head_dim_qk);
  return std::llround(ring_passes * numbers * element_bytes(block->dtype));
}

// The dispatch of routed tokens holds dispatch_sms SMs. Only GEMMs and attention need these SMs;
// memory-bound kernels do not slow down.
double FrameworkTimes::dispatch_slowdown(const Kernel& kernel, std::int64_t sms,
                                         double compute_loss) const {
  TY_CHECK(dispatch_sms < sms, dispatch_sms, sms);
  const bool on_sms = std::holds_alternative<Gemm>(kernel) ||
                      std::holds_alternative<GroupedGemm>(kernel) ||
                      std::holds_alternative<Attention>(kernel);
  if (!on_sms) return 1.0;
  const double share = static_cast<double>(dispatch_sms) / static_cast<double>(sms);
  return 1.0 / (1.0 - std::min(share * compute_loss, kLossMost));
}

FrameworkTimes load_framework_times(const std::string& name, const std::string& generation) {
  JsonFile file = framework_file(name);
  JsonObject root = file.root();
  ignore_but(root, {"kernel_time", "dispatch_sms"});
  FrameworkTimes times;
  if (root.has("dispatch_sms")) {
    times.dispatch_sms = sourced(root, "dispatch_sms").integer("value", {.least = 0, .most = 64});
  }
  if (root.has("kernel_time")) {
    JsonObject all = root.object("kernel_time");
    ignore_but(all, {kAnyGeneration, generation});
    GenerationFigures figures(all, generation);
    const NumberRule rule{.least = 1.0 / kTimesMost, .most = kTimesMost};
    // A factor that was not measured falls back to that of the closest kind: fp8 to 16 bits, and
    // backward and ring attention to forward.
    times.gemm = figures.get("gemm", 1.0, rule);
    times.fp8_gemm = figures.get("fp8_gemm", times.gemm, rule);
    times.grouped_gemm = figures.get("grouped_gemm", 1.0, rule);
    times.fp8_grouped_gemm = figures.get("fp8_grouped_gemm", times.grouped_gemm, rule);
    times.attention = figures.get("attention", 1.0, rule);
    times.attention_backward = figures.get("attention_backward", times.attention, rule);
    times.ring_attention = figures.get("ring_attention", times.attention, rule);
    times.ring_passes = figures.get("ring_passes", 0.0, {.least = 0.0, .most = kPassesMost});
    times.memory_bound = figures.get("memory_bound", 1.0, rule);
    times.fp4_gemm = figures.get("fp4_gemm", 1.0, rule);
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
  ignore_but(all, {generation});
  JsonObject own = all.object(generation);
  const NumberRule rule{.least = 1.0 / kTimesMost, .most = kTimesMost};
  const AttentionTimes times{.forward = sourced(own, "forward").number("value", rule),
                             .backward = sourced(own, "backward").number("value", rule)};
  file.finish();
  return times;
}

}  // namespace trainyard
