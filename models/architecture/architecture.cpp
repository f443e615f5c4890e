#include "models/architecture/architecture.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture/weights.hpp"
#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/field.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/words.hpp"

namespace trainyard {

namespace {

constexpr Words<Positions, 2> kPositions{
    {{Positions::Learned, "learned"}, {Positions::Rotary, "rotary"}}};
constexpr Words<NormKind, 2> kNorm{
    {{NormKind::LayerNorm, "layer_norm"}, {NormKind::RmsNorm, "rms_norm"}}};

using A = Architecture;
const Field<A> kArchitecture[] = {
    {"name", "how reports call it", Text<A>{&A::name}},
    {"source", "where the numbers come from", Text<A>{&A::source}},
    {"layers", "transformer layers", Whole<A>{&A::layers, 1, 100'000, true}},
    {"hidden", "width of the residual stream", Whole<A>{&A::hidden, 1, kLengthMost, true}},
    {"heads", "query heads", Whole<A>{&A::heads, 1, kLengthMost, true}},
    {"kv_heads", "key-value heads; as many as heads when left out",
     Whole<A>{&A::kv_heads, 1, kLengthMost}},
    {"head_dim", "width of one head; hidden / heads when left out",
     Whole<A>{&A::head_dim, 1, kLengthMost}},
    {"ffn", "inner width of the feed-forward part", Whole<A>{&A::ffn, 1, kLengthMost, true}},
    {"vocab", "tokens of the vocabulary, before padding",
     Whole<A>{&A::vocab, 1, kLengthMost, true}},
    {"max_positions", "positions the model has", Whole<A>{&A::max_positions, 1, kLengthMost, true}},
    {"gated_ffn", "SwiGLU: gate and up projections", Flag<A>{&A::gated_ffn}},
    {"biases", "on every linear layer but the head", Flag<A>{&A::biases}},
    {"qkv_biases", "on queries, keys and values alone", Flag<A>{&A::qkv_biases}},
    {"qk_norm", "a norm over each head of queries and keys", Flag<A>{&A::qk_norm}},
    {"post_norms", "norms behind attention and feed-forward too, before they are added (Gemma 2)",
     Flag<A>{&A::post_norms}},
    {"tied_embeddings", "input and output embeddings are one matrix", Flag<A>{&A::tied_embeddings}},
    {"dropout", "dropout with stored masks", Flag<A>{&A::dropout}},
    {"positions", "how positions are known", word_of<A, &A::positions, kPositions>()},
    {"norm", "the normalisation", word_of<A, &A::norm, kNorm>()},
    {"window", "positions that attention within a sliding window sees; 0: all before it",
     Whole<A>{&A::window, 0, kLengthMost}},
    {"full_attention_every",
     "of a model with a window, the last of every so many layers sees all; 0: none does",
     Whole<A>{&A::full_attention_every, 0, 100'000}},
    {"query_latent", "latent attention: width queries are compressed to; 0: they are not",
     Whole<A>{&A::query_latent, 0, kLengthMost}},
    {"kv_latent", "latent attention: width keys and values are compressed to; 0: none",
     Whole<A>{&A::kv_latent, 0, kLengthMost}},
    {"rope_dim", "latent attention: dimensions of a head that carry positions",
     Whole<A>{&A::rope_dim, 0, kLengthMost}},
    {"value_dim", "width of a head's values; 0: head_dim", Whole<A>{&A::value_dim, 0, kLengthMost}},
    {"experts", "experts of a layer; 0: one feed-forward part for all tokens",
     Whole<A>{&A::experts, 0, kLengthMost}},
    {"experts_per_token", "experts that a token is sent to",
     Whole<A>{&A::experts_per_token, 0, kLengthMost}},
    {"expert_ffn", "inner width of one expert", Whole<A>{&A::expert_ffn, 0, kLengthMost}},
    {"shared_ffn", "inner width of the experts that see every token, together",
     Whole<A>{&A::shared_ffn, 0, kLengthMost}},
    {"dense_layers", "the first so many layers have no experts",
     Whole<A>{&A::dense_layers, 0, 100'000}},
    {"moe_every", "after them, the last layer of every so many has experts",
     Whole<A>{&A::moe_every, 1, 100'000}},
    {"expert_groups", "groups of experts that routing is limited to",
     Whole<A>{&A::expert_groups, 1, kLengthMost}},
    {"groups_per_token", "groups that one token may reach",
     Whole<A>{&A::groups_per_token, 1, kLengthMost}},
    {"router_bias", "one number an expert, which balances the load", Flag<A>{&A::router_bias}},
    {"clamped_experts", "gate and up of an expert are cut off before the activation (GPT-OSS)",
     Flag<A>{&A::clamped_experts}},
};

}  // namespace

std::span<const Field<Architecture>> architecture_fields() { return kArchitecture; }

Architecture default_architecture() {
  Architecture llama;
  llama.name = "custom";
  llama.gated_ffn = true;
  return llama;
}

// ---- reading

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

// ---- parameters

namespace {

enum class Experts : std::uint8_t { All, Active };

std::int64_t layer_count(const Architecture& a, LayerKind kind, Experts experts) {
  std::int64_t sum = layer_vectors(a, kind);
  for (const Weight& weight : layer_weights(a, kind))
    sum += (experts == Experts::All ? weight.copies : weight.active) * weight.parameters();
  return sum;
}

std::int64_t whole_count(const Architecture& a, Experts experts) {
  const std::int64_t vocabulary_matrices = a.tied_embeddings ? 1 : 2;
  const std::int64_t positions = a.positions == Positions::Learned ? a.max_positions * a.hidden : 0;
  std::int64_t sum = vocabulary_matrices * a.vocab * a.hidden + positions + a.norm_width();
  for (const LayerKind kind : {LayerKind::Dense, LayerKind::Moe})
    if (const std::int64_t layers = a.layers_of(kind); layers > 0)
      sum += layers * layer_count(a, kind, experts);
  return sum;
}

}  // namespace

std::int64_t layer_parameter_count(const Architecture& architecture, LayerKind kind) {
  return layer_count(architecture, kind, Experts::All);
}

std::int64_t parameter_count(const Architecture& architecture) {
  return whole_count(architecture, Experts::All);
}

std::int64_t active_parameter_count(const Architecture& architecture) {
  return whole_count(architecture, Experts::Active);
}

std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, std::int64_t multiple) {
  TY_CHECK(tensor > 0 && multiple > 0, tensor, multiple);
  const std::int64_t unit = multiple * tensor;
  return (vocab + unit - 1) / unit * unit;
}

}  // namespace trainyard
