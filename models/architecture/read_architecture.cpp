#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "models/architecture/architecture_fields.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {
namespace {

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
  object.ignore("description");
  Architecture a = read_fields(object, architecture_fields(), default_architecture());
  if (!object.has("kv_heads")) a.kv_heads = a.heads;
  if (!object.has("head_dim")) a.head_dim = a.heads > 0 ? a.hidden / a.heads : 0;
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
