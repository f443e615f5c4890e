#include <filesystem>
#include <string>
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

void read_parts(JsonObject& object, Architecture& a) {
  a.gated_ffn = object.boolean("gated_ffn", true);
  a.biases = object.boolean("biases", false);
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

}  // namespace

Architecture read_architecture(JsonObject object) {
  Architecture a;
  a.name = object.text("name", "custom");
  a.source = object.text("source", "");
  object.ignore("description");
  read_widths(object, a);
  read_parts(object, a);
  check_heads(object, a);
  return a;
}

Architecture load_architecture(const std::string& name_or_path) {
  const std::filesystem::path path = data_file("models/data", name_or_path);
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  const bool named = root.has("name");
  Architecture architecture = read_architecture(root);
  file.finish();
  if (!named) architecture.name = path.stem().string();
  return architecture;
}

std::vector<std::string> architecture_names() { return data_names("models/data"); }

}  // namespace trainyard
