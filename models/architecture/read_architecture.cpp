#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kLayersMost = 100'000;
constexpr std::int64_t kWidthMost = 100'000'000;

IntegerRule required(std::int64_t most) { return {.fallback = {}, .least = 1, .most = most}; }

IntegerRule optional(std::int64_t fallback) {
  return {.fallback = fallback, .least = 1, .most = kWidthMost};
}

void read_widths(JsonObject& object, Architecture& a) {
  a.layers = object.integer("layers", required(kLayersMost));
  a.hidden = object.integer("hidden", required(kWidthMost));
  a.heads = object.integer("heads", required(kWidthMost));
  a.kv_heads = object.integer("kv_heads", optional(a.heads));
  a.head_dim = object.integer("head_dim", optional(a.heads > 0 ? a.hidden / a.heads : 0));
  a.ffn = object.integer("ffn", required(kWidthMost));
  a.vocab = object.integer("vocab", required(kWidthMost));
  a.max_positions = object.integer("max_positions", required(kWidthMost));
}

// Absent means the model has no such part.
std::int64_t part(JsonObject& object, std::string_view name, std::int64_t fallback = 0) {
  return object.integer(name, {.fallback = fallback, .least = fallback, .most = kWidthMost});
}

void read_window(JsonObject& object, Architecture& a) {
  a.window = part(object, "window");
  a.full_attention_every = part(object, "full_attention_every");
}

void read_latent(JsonObject& object, Architecture& a) {
  a.query_latent = part(object, "query_latent");
  a.kv_latent = part(object, "kv_latent");
  a.rope_dim = part(object, "rope_dim");
  a.value_dim = part(object, "value_dim");
}

void read_experts(JsonObject& object, Architecture& a) {
  a.experts = part(object, "experts");
  a.experts_per_token = part(object, "experts_per_token");
  a.expert_ffn = part(object, "expert_ffn");
  a.shared_ffn = part(object, "shared_ffn");
  a.dense_layers = part(object, "dense_layers");
  a.moe_every = part(object, "moe_every", 1);
  a.expert_groups = part(object, "expert_groups", 1);
  a.groups_per_token = part(object, "groups_per_token", 1);
  a.router_bias = object.boolean("router_bias", false);
  a.clamped_experts = object.boolean("clamped_experts", false);
}

void read_parts(JsonObject& object, Architecture& a) {
  a.gated_ffn = object.boolean("gated_ffn", true);
  a.biases = object.boolean("biases", false);
  a.qkv_biases = object.boolean("qkv_biases", false);
  a.qk_norm = object.boolean("qk_norm", false);
  a.post_norms = object.boolean("post_norms", false);
  a.tied_embeddings = object.boolean("tied_embeddings", false);
  a.dropout = object.boolean("dropout", false);
  const std::string positions = object.choice("positions", {"learned", "rotary"}, "rotary");
  a.positions = positions == "learned" ? Positions::Learned : Positions::Rotary;
  const std::string norm = object.choice("norm", {"layer_norm", "rms_norm"}, "rms_norm");
  a.norm = norm == "layer_norm" ? NormKind::LayerNorm : NormKind::RmsNorm;
}

void check_heads(JsonObject& object, const Architecture& a) {
  if (a.heads < 1 || a.hidden < 1) return;  // already reported
  if (!object.has("head_dim") && a.hidden % a.heads != 0) {
    object.report("heads",
                  "hidden size " + std::to_string(a.hidden) + " does not divide by " +
                      std::to_string(a.heads) + " heads",
                  "choose heads that divide hidden, or give head_dim");
  }
  if (a.kv_heads >= 1 && a.heads % a.kv_heads != 0) {
    object.report("kv_heads",
                  std::to_string(a.heads) + " heads do not divide among " +
                      std::to_string(a.kv_heads) + " key-value heads",
                  "every key-value head serves the same number of heads");
  }
}

// Fields of a part that the model lacks say nothing; zero is what a model without it has.
void report_orphans(JsonObject& object,
                    const std::vector<std::pair<std::string_view, std::int64_t>>& fields,
                    std::string_view of_what) {
  for (const auto& [field, value] : fields)
    if (value > 0)
      object.report(field, fmt::format("{} belongs to {}", value, of_what), "or leave it out");
}

void check_latent(JsonObject& object, const Architecture& a) {
  if (!a.latent()) {
    report_orphans(object, {{"query_latent", a.query_latent}, {"rope_dim", a.rope_dim}},
                   "latent attention, which the model does not have: give kv_latent");
    return;
  }
  if (a.rope_dim < 1 || a.rope_dim >= a.head_dim)
    object.report(
        "rope_dim",
        fmt::format("{} of {} dimensions of a head carry positions", a.rope_dim, a.head_dim),
        "latent attention needs some, and fewer than head_dim");
  if (a.biases)
    object.report("biases", "latent attention with biases is not modelled", "leave it out");
}

void check_experts(JsonObject& object, const Architecture& a) {
  if (!a.has_experts()) {
    report_orphans(object,
                   {{"experts_per_token", a.experts_per_token},
                    {"expert_ffn", a.expert_ffn},
                    {"shared_ffn", a.shared_ffn},
                    {"dense_layers", a.dense_layers},
                    {"clamped_experts", a.clamped_experts ? 1 : 0}},
                   "a mixture of experts, which the model is not: give experts");
    return;
  }
  if (a.experts_per_token < 1 || a.experts_per_token > a.experts)
    object.report(
        "experts_per_token",
        fmt::format("a token cannot go to {} of {} experts", a.experts_per_token, a.experts),
        fmt::format("use 1 to {}", a.experts));
  if (a.expert_ffn < 1)
    object.report("expert_ffn", "an expert needs an inner width", "give its intermediate size");
  if (a.dense_layers > a.layers || (a.layers - a.dense_layers) % a.moe_every != 0)
    object.report("moe_every",
                  fmt::format("{} layers after {} dense ones do not divide by {}",
                              a.layers - a.dense_layers, a.dense_layers, a.moe_every),
                  "choose dense_layers and moe_every so that they do");
  if (a.experts % a.expert_groups != 0 || a.groups_per_token > a.expert_groups)
    object.report("expert_groups",
                  fmt::format("{} experts in {} groups, {} of them a token", a.experts,
                              a.expert_groups, a.groups_per_token),
                  "groups divide the experts, and a token reaches no more groups than there are");
}

}  // namespace

Architecture read_architecture(JsonObject object) {
  Architecture a;
  a.name = object.text("name", "custom");
  a.source = object.text("source", "");
  object.ignore("description");
  read_widths(object, a);
  read_parts(object, a);
  read_window(object, a);
  read_latent(object, a);
  read_experts(object, a);
  check_heads(object, a);
  if (a.window == 0 && !object.has("window"))
    report_orphans(object, {{"full_attention_every", a.full_attention_every}},
                   "attention within a window, which the model does not have: give window");
  check_latent(object, a);
  check_experts(object, a);
  return a;
}

JsonFile architecture_file(const std::string& name_or_path) {
  const std::filesystem::path path = data_file("models/data", name_or_path);
  JsonFile file = JsonFile::read(path);
  if (file.document().is_object() && !file.document().contains("name"))
    file.document()["name"] = path.stem().string();
  return file;
}

Architecture load_architecture(const std::string& name_or_path) {
  JsonFile file = architecture_file(name_or_path);
  Architecture architecture = read_architecture(file.root());
  file.finish();
  return architecture;
}

std::vector<std::string> architecture_names() { return data_names("models/data"); }

}  // namespace trainyard
