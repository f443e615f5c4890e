#include "models/architecture/architecture_fields.hpp"

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

}  // namespace trainyard
