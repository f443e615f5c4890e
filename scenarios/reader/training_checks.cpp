// Rules of the sections about one step: its batch and sequences, recomputation, trained weights,
// and packed documents.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "models/layers/layer_block.hpp"
#include "models/pipeline_shape.hpp"
#include "models/recompute.hpp"
#include "models/trained_weights.hpp"
#include "scenarios/reader/checks.hpp"
#include "sim/base/data_directory.hpp"

namespace trainyard {

namespace {

// Returns whether every kind of layer block in the model defines which of its GEMMs are every
// second one.
bool knows_second_gemms(const Architecture& architecture) {
  return std::ranges::all_of(layer_kinds(architecture), [](const CountedKind& counted) {
    return block_of(counted.kind, LayerHalf::Attention).second_gemms != nullptr &&
           block_of(counted.kind, LayerHalf::FeedForward).second_gemms != nullptr;
  });
}

void check_second_gemms(const Check& check) {
  const Training& training = check.batch();
  const RecomputeModules& chosen = training.recompute_modules;
  const Architecture& a = check.architecture();
  if (!chosen.second_gemms) return;
  const bool known = a.gated_ffn && training.lora_rank == 0 && knows_second_gemms(a);
  const bool alone = chosen == RecomputeModules{.core = false, .second_gemms = true};
  if (alone && (known || !check.model)) return;
  check.file.report("/training/recompute_modules",
                    "every_second_gemm cannot be combined with others; it is for dense layers with "
                    "a gated feed-forward part and "
                    "ordinary attention whose weights are all trained",
                    "choose modules by name, or recompute \"full\"");
}

// Checks a field that only one method reads. Without full recomputation the field has no effect,
// and the run reports that as an approximation instead: sweeps and searches leave the field in
// place.
void check_method_field(JsonFile& file, const Training& training, RecomputeMethod method,
                        bool given) {
  if (training.recompute != Recompute::Full) return;
  const std::string_view word = word_for(kRecomputeMethods, method);
  const std::string field = fmt::format("recompute_{}", word);
  if (given && training.recompute_method != method)
    file.report("/training/" + field,
                fmt::format("applies only with recompute_method \"{}\"; it is \"{}\"", word,
                            word_for(kRecomputeMethods, training.recompute_method)),
                fmt::format("set recompute_method to \"{}\", or leave {} out", word, field));
  if (!given && training.recompute_method == method)
    file.report(
        "/training/" + field, "is missing, but recompute_method asks for it",
        fmt::format("say which {}, or choose recompute_method from uniform, block, every",
                    method == RecomputeMethod::Layers ? "layers" : "fraction of the layers"));
}

void check_listed_layers(const Check& check) {
  const Training& training = check.batch();
  const Architecture& a = check.architecture();
  const std::int64_t layers = a.layers + training.mtp_layers;
  std::set<std::int64_t> named;
  for (std::size_t i = 0; i < training.recompute_layers.size(); ++i) {
    const std::int64_t layer = training.recompute_layers[i];
    const std::string place = fmt::format("/training/recompute_layers/{}", i);
    if (layer >= layers)
      check.file.report(place, fmt::format("there is no layer {} in {}", layer, a.name),
                        fmt::format("layers of the whole model are numbered 0 to {}", layers - 1));
    else if (!named.insert(layer).second)
      check.file.report(place, fmt::format("layer {} is listed twice", layer), "list it once");
  }
}

// Returns the least fraction of four digits that is one layer of `layers` or more: 0.3334 for 3.
double one_of(std::int64_t layers) {
  constexpr double kDigits = 1e4;
  return std::ceil(kDigits / static_cast<double>(layers)) / kDigits;
}

void check_lengths(JsonFile& file, const TrainingPlan& plan) {
  const Documents& documents = plan.documents;
  const std::int64_t sum =
      std::accumulate(documents.lengths.begin(), documents.lengths.end(), std::int64_t{0});
  if (documents.kind == DocumentKind::List && sum != plan.training.sequence_length)
    file.report(
        "/documents/lengths",
        fmt::format("add up to {} tokens; a sequence has {}", sum, plan.training.sequence_length),
        "list every document of a sequence, padding included");
  if (documents.kind == DocumentKind::Lognormal && documents.mean_length < 1)
    file.report("/documents/mean_length", "is missing, but lengths are drawn",
                "give the mean length of a document in tokens");
}

// Replicas of unequal batches meet once a step, to sum their gradients. What makes them meet in
// each microbatch is refused.
void check_replica_batches(const Check& check) {
  const Parallelism& p = check.sizes();
  const std::vector<std::int64_t>& given = p.replica_microbatches;
  const auto refuse = [&](const std::string& problem, const std::string& hint) {
    check.file.report("/parallelism/replica_microbatches", problem, hint);
  };
  if (std::ssize(given) != p.data)
    return refuse(fmt::format("has {} entries for {} replicas", given.size(), p.data),
                  "give one for each replica, by its data rank");
  const std::int64_t sum = std::accumulate(given.begin(), given.end(), std::int64_t{0});
  if (sum > kMicrobatchesMost)
    return refuse(fmt::format("makes {} microbatches, more than {}", sum, kMicrobatchesMost),
                  "choose a larger micro_batch_size");
  if (sum * check.batch().micro_batch_size != check.batch().global_batch_size)
    return refuse(fmt::format("{} microbatches of {} sequences are not the global batch of {}", sum,
                              check.batch().micro_batch_size, check.batch().global_batch_size),
                  "let microbatches x micro_batch_size add up to global_batch_size");
  if (p.zero_stage > 1)
    refuse(fmt::format("cannot be combined with zero_stage {}, whose replicas meet in every "
                       "microbatch",
                       p.zero_stage),
           "set zero_stage to 1 or 0");
  if (p.expert > 1)
    refuse("cannot be combined with expert parallelism, whose replicas exchange tokens",
           "set expert to 1");
  if (check.scenario.plan.servers.servers > 0 || !p.operator_devices.empty() ||
      check.scenario.plan.documents.kind != DocumentKind::None)
    refuse("cannot be combined with parameter_servers, operator_devices or documents",
           "leave one of them out");
}

// A preset and a kind that agree, and a balance only where lengths are drawn.
void check_preset(JsonFile& file, const Documents& documents) {
  const bool is_preset = documents.kind == DocumentKind::Preset;
  if (is_preset && documents.preset.empty())
    file.report("/documents/preset", "is missing, but kind is \"preset\"",
                fmt::format("choose one of {}", fmt::join(data_names("models/documents"), ", ")));
  if (!is_preset && !documents.preset.empty())
    file.report("/documents/preset", "is given, but kind is not \"preset\"",
                "set kind to \"preset\", or leave preset out");
  if (!documents.drawn() && documents.balance != DocumentBalance::None)
    file.report("/documents/balance", "only drawn lengths can be balanced",
                "set kind to \"lognormal\" or \"preset\", or leave balance out");
}

}  // namespace

// The global batch is a whole number of microbatches on every replica, and not too many of them.
void check_batch(const Check& check) {
  if (!check.parallelism || !check.training) return;
  const std::int64_t round = check.round();
  const std::int64_t batch = check.batch().global_batch_size;
  if (!check.sizes().replica_microbatches.empty()) return check_replica_batches(check);
  if (batch % round != 0) {
    check.file.report(
        "/training/global_batch_size",
        fmt::format("{} sequences do not divide into microbatches of {} on {} replicas", batch,
                    check.batch().micro_batch_size, check.sizes().data),
        fmt::format("choose a multiple of {}", round));
  } else if (batch / round > kMicrobatchesMost) {
    check.file.report(
        "/training/global_batch_size",
        fmt::format("makes {} microbatches, more than {}", batch / round, kMicrobatchesMost),
        "choose a larger micro_batch_size");
  }
}

void check_sequence(const Check& check) {
  if (!check.training) return;
  const std::int64_t length = check.batch().sequence_length;
  const Parallelism& p = check.sizes();
  if (check.parallelism && p.sequence_parallel && length % p.tensor != 0) {
    check.file.report("/training/sequence_length",
                      fmt::format("{} tokens do not divide among {} tensor ranks, as "
                                  "sequence_parallel asks",
                                  length, p.tensor),
                      fmt::format("choose a multiple of {}", p.tensor));
  }
  const Architecture& model = check.architecture();
  if (check.model && model.positions == Positions::Learned && length > model.max_positions) {
    check.file.report("/training/sequence_length",
                      fmt::format("must be at most {}, the positions that {} has learned, not {}",
                                  model.max_positions, model.name, length),
                      "shorten it, or take a model with rotary positions");
  }
}

void check_recomputed_fraction(const Check& check) {
  const Training& training = check.batch();
  const double fraction = training.recompute_fraction.value_or(0.0);
  if (training.recompute != Recompute::Full ||
      training.recompute_method != RecomputeMethod::Fraction || fraction == 0.0)
    return;
  const std::vector<bool> recomputed = recomputed_layers(check.scenario.plan);
  if (std::ranges::find(recomputed, true) != recomputed.end()) return;
  const std::vector<std::int64_t> split = layer_split(check.scenario.plan);
  const std::int64_t most = *std::ranges::max_element(split);
  check.file.report(
      "/training/recompute_fraction",
      fmt::format("{} of the {} layers that a stage's chunk has at most is less than one", fraction,
                  most),
      fmt::format("give at least {}, or list layers in recompute_layers", one_of(most)));
}

void check_recomputation(const Check& check) {
  if (!check.training) return;
  const Training& training = check.batch();
  check_second_gemms(check);
  check_method_field(check.file, training, RecomputeMethod::Fraction,
                     training.recompute_fraction.has_value());
  check_method_field(check.file, training, RecomputeMethod::Layers,
                     !training.recompute_layers.empty());
  if (check.model) check_listed_layers(check);
}

void check_mtp_layers(const Check& check) {
  if (!check.training || check.batch().mtp_layers == 0) return;
  const auto refuse = [&check](const char* problem, const char* hint) {
    check.file.report("/training/mtp_layers", problem, hint);
  };
  if (check.batch().lora_rank > 0)
    refuse("MTP layers are trained as a whole, not by adapters",
           "set mtp_layers or lora_rank to 0");
  if (freezes(check.batch()) || check.scenario.plan.offload.any())
    refuse("MTP layers are neither frozen nor offloaded",
           "set mtp_layers to 0, or leave frozen weights and offload out");
  if (!check.parallelism) return;
  const Parallelism& p = check.sizes();
  if (check.model && check.architecture().hidden % p.tensor != 0)
    refuse("has a projection whose columns do not divide among the tensor ranks",
           "choose a tensor that divides the model's hidden width");
}

// Adapters need attention that supports them, and at least one adapted matrix.
void check_adapters(const Check& check) {
  if (!check.training || check.batch().lora_rank == 0) return;
  const Training& training = check.batch();
  const Architecture& a = check.architecture();
  if (!check.model) return;
  const std::vector<CountedKind> kinds = layer_kinds(a);
  const auto refusing = std::ranges::find_if(
      kinds, [&a](const CountedKind& counted) { return !takes_adapters(counted.kind, a); });
  if (refusing != kinds.end())
    check.file.report("/training/lora_rank",
                      fmt::format("adapters need multi-head attention; this model has {}",
                                  block_of(refusing->kind, LayerHalf::Attention).name),
                      "set lora_rank to 0, or take another model");
  else if (adapter_parameters(a, training) == 0)
    check.file.report(
        "/training/lora_targets",
        fmt::format("leave nothing to train: layers with experts, all of {}, have adapters on "
                    "their attention alone",
                    a.name),
        "name query, key, value or projection");
}

// Frozen layers must exist, something must be trained, and a tied matrix cannot be both trained and
// frozen.
void check_frozen(const Check& check) {
  const TrainingPlan& plan = check.scenario.plan;
  if (!check.training || !check.model || !freezes(plan.training)) return;
  const std::int64_t layers = plan.architecture.layers;
  for (std::size_t i = 0; i < plan.training.frozen_layers.size(); ++i) {
    const std::int64_t layer = plan.training.frozen_layers[i];
    if (layer < layers) continue;
    check.file.report(fmt::format("/training/frozen_layers/{}", i),
                      fmt::format("there is no layer {} in {}", layer, plan.architecture.name),
                      fmt::format("layers are numbered 0 to {}", layers - 1));
  }
  if (trained_weights(plan).first > layers)
    check.file.report("/training/frozen_layers", "leaves nothing to train",
                      "leave a layer, the embedding or the head out of what is frozen");
  const bool ends_differ = plan.training.frozen_embedding != plan.training.frozen_head;
  if (plan.architecture.tied_embeddings && ends_differ && plan.training.lora_rank == 0)
    check.file.report(
        "/training/frozen_embedding",
        fmt::format("{} has one matrix for embedding and head, which is trained or not",
                    plan.architecture.name),
        "set frozen_embedding and frozen_head to the same value");
}

void check_documents(const Check& check) {
  const TrainingPlan& plan = check.scenario.plan;
  if (!check.file.is_sound("/documents")) return;
  check_preset(check.file, plan.documents);
  if (plan.documents.kind == DocumentKind::None) return;
  if (check.training) {
    check_lengths(check.file, plan);
    if (plan.training.attention != AttentionKind::Flash)
      check.file.report("/documents/kind", "only the fused attention kernel skips other documents",
                        "set /training/attention to \"flash\"");
  }
  if (check.model && plan.architecture.window > 0)
    check.file.report("/documents/kind",
                      "attention within a window is not modelled for packed documents",
                      "set /model/window to 0, or leave /documents out");
  if (check.parallelism && plan.documents.drawn() && plan.documents.independent_replicas &&
      plan.parallelism.data > 1 && plan.servers.servers > 0)
    check.file.report("/documents/independent_replicas",
                      "replicas with parameter servers cannot have different documents",
                      "set it to false");
}

}  // namespace trainyard
