#include "models/architecture/architecture.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/architecture/weights.hpp"
#include "models/layers/layer_block.hpp"
#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/field.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/words.hpp"

namespace trainyard {

namespace {

constexpr Words<Positions, 3> kPositions{
    {{Positions::Learned, "learned"}, {Positions::Rotary, "rotary"}, {Positions::None, "none"}}};
constexpr Words<NormKind, 2> kNorm{
    {{NormKind::LayerNorm, "layer_norm"}, {NormKind::RmsNorm, "rms_norm"}}};

using A = Architecture;
// Every model has these fields. Each kind of block adds its own.
const Field<A> kCommon[] = {
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
    {"positions", "how positions are known; none: not at all, or by a bias of the scores (ALiBi)",
     word_of<A, &A::positions, kPositions>()},
    {"norm", "the normalisation", word_of<A, &A::norm, kNorm>()},
    {"window", "positions that attention within a sliding window sees; 0: all before it",
     Whole<A>{&A::window, 0, kLengthMost}},
    {"full_attention_every",
     "of a model with a window, the last of every so many layers sees all; 0: none does",
     Whole<A>{&A::full_attention_every, 0, 100'000}},
};

}  // namespace

std::span<const Field<Architecture>> architecture_fields() {
  static const std::vector<Field<Architecture>> all = [] {
    std::vector<Field<Architecture>> fields(std::begin(kCommon), std::end(kCommon));
    for (const LayerBlock& block : layer_blocks())
      fields.insert(fields.end(), block.fields.begin(), block.fields.end());
    return fields;
  }();
  return all;
}

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

}  // namespace

Architecture read_architecture(JsonObject object) {
  object.ignore("description");
  Architecture a = read_fields(object, architecture_fields(), default_architecture());
  // Sizes that a file omits follow from others: every head has its own keys and values, and the
  // heads divide the hidden size.
  if (!object.has("kv_heads")) a.kv_heads = a.heads;
  if (!object.has("head_dim")) a.head_dim = a.heads > 0 ? a.hidden / a.heads : 0;
  check_heads(object, a);
  if (a.window == 0 && !object.has("window"))
    report_orphans(object, {{"full_attention_every", a.full_attention_every}},
                   "attention within a window, which the model does not have: give window");
  for (const LayerBlock& block : layer_blocks())
    if (block.check != nullptr) block.check(object, a);
  return a;
}

// A file without a name gets its file name, so that reports can name the model.
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

enum class CountedExperts : std::uint8_t { All, Active };

// Parameters of one layer. Active counts only the experts to which one token is routed.
std::int64_t layer_count(const Architecture& a, LayerKind kind, CountedExperts experts) {
  std::int64_t sum = layer_vectors(a, kind);
  for (const Weight& weight : layer_weights(a, kind))
    sum += (experts == CountedExperts::All ? weight.copies : weight.active) * weight.parameters();
  return sum;
}

// Parameters of the model: vocabulary matrices (one if tied, without padding), learned positions,
// the final norm, and all layers.
std::int64_t whole_count(const Architecture& a, CountedExperts experts) {
  const std::int64_t vocabulary_matrices = a.tied_embeddings ? 1 : 2;
  const std::int64_t positions = a.positions == Positions::Learned ? a.max_positions * a.hidden : 0;
  std::int64_t sum = vocabulary_matrices * a.vocab * a.hidden + positions + a.norm_width();
  for (const auto& [kind, layers] : layer_kinds(a)) sum += layers * layer_count(a, kind, experts);
  return sum;
}

}  // namespace

std::int64_t layer_parameter_count(const Architecture& architecture, LayerKind kind) {
  return layer_count(architecture, kind, CountedExperts::All);
}

std::int64_t parameter_count(const Architecture& architecture) {
  return whole_count(architecture, CountedExperts::All);
}

std::int64_t active_parameter_count(const Architecture& architecture) {
  return whole_count(architecture, CountedExperts::Active);
}

// Rounds up, so that all tensor ranks have equal parts and each part is a multiple of `multiple`:
// 50 257 entries on 8 ranks with 128 become 51 200.
std::int64_t padded_vocab(std::int64_t vocab, std::int64_t tensor, std::int64_t multiple) {
  TY_CHECK(tensor > 0 && multiple > 0, tensor, multiple);
  const std::int64_t unit = multiple * tensor;
  return (vocab + unit - 1) / unit * unit;
}

}  // namespace trainyard
