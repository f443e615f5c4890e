#include "models/streaming_kernels.hpp"

#include "models/framework_file.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr std::int64_t kTimesMost = 100;  // that one operation touches a number

StreamingPass read_pass(JsonObject object) {
  const IntegerRule times{.fallback = 0, .least = 0, .most = kTimesMost};
  return {.narrow = object.integer("narrow", times),
          .wide = object.integer("wide", times),
          .launches = object.integer("launches", {.least = 1, .most = kTimesMost})};
}

KeptTensors read_kept(JsonObject object) {
  const IntegerRule rule{.fallback = 0, .least = 0, .most = kTimesMost};
  return {.narrow = object.integer("narrow", rule), .wide = object.integer("wide", rule)};
}

// {"eager": {"forward": {...}, "backward": {...}, "kept": {...}}, "compiled": {...}, "source":
// ...}: as it is where this way of running it is not there.
void read_operation(JsonObject& all, const char* key, bool compiled,
                    StreamingOperation& operation) {
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

StreamingKernels load_streaming_kernels(const std::string& name, bool compiled) {
  JsonFile file = framework_file(name);
  JsonObject root = file.root();
  // framework.hpp reads the others, and refuses strange ones.
  for (const std::string& key : root.keys())
    if (key != "streaming") root.ignore(key);
  StreamingKernels kernels{.compiled = compiled};
  if (root.has("streaming")) {
    JsonObject all = root.object("streaming");
    read_operation(all, "rms_norm", compiled, kernels.rms_norm);
    read_operation(all, "layer_norm", compiled, kernels.layer_norm);
    read_operation(all, "rotary", compiled, kernels.rotary);
    read_operation(all, "activation", compiled, kernels.activation);
    read_operation(all, "gated_activation", compiled, kernels.gated_activation);
    const auto truth = [&all](std::string_view key) {
      return all.has(key) && sourced(all, key).boolean("value", false);
    };
    kernels.repeated_heads = truth("repeated_heads");
    kernels.separate_products = truth("separate_products");
    kernels.sequence_copies = truth("sequence_copies");
    kernels.keeps_gathered = truth("keeps_gathered");
    kernels.recompute_stops_early = truth("recompute_stops_early");
    kernels.joined_gradients = truth("joined_gradients");
    if (all.has("loss_metrics"))
      kernels.loss_metrics = sourced(all, "loss_metrics").integer("value", {.least = 0, .most = 9});
  }
  file.finish();
  return kernels;
}

}  // namespace trainyard
