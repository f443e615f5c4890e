#include "scenarios/reader/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/architecture/weights.hpp"
#include "models/attention_pairs.hpp"
#include "models/pipeline_shape.hpp"
#include "models/schedules/schedule.hpp"
#include "scenarios/reader/device_checks.hpp"
#include "scenarios/reader/expert_checks.hpp"
#include "scenarios/reader/gpu_checks.hpp"
#include "scenarios/reader/size_checks.hpp"
#include "scenarios/reader/split_checks.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

namespace {

// More microbatches than this make a step of many millions of operations and no sense.
constexpr std::int64_t kMicrobatchesMost = 100'000;

// The scenario, and which sections were read without a problem before any rule was tried: rules do
// not silence each other.
struct Check {
  JsonFile& file;
  const Scenario& scenario;
  bool model = file.is_sound("/model");
  bool cluster = file.is_sound("/cluster");
  bool parallelism = file.is_sound("/parallelism");
  bool training = file.is_sound("/training");

  [[nodiscard]] const Architecture& architecture() const { return scenario.plan.architecture; }
  [[nodiscard]] const Parallelism& sizes() const { return scenario.plan.parallelism; }
  [[nodiscard]] const Training& batch() const { return scenario.plan.training; }
  // Sequences that all replicas take in one microbatch each.
  [[nodiscard]] std::int64_t round() const { return batch().micro_batch_size * sizes().data; }
};

void check_tensor_divides(const Check& check, std::int64_t amount, std::string_view what) {
  const std::int64_t tensor = check.sizes().tensor;
  if (amount % tensor == 0) return;
  check.file.report("/parallelism/tensor",
                    fmt::format("{} {} do not divide among {} tensor ranks", amount, what, tensor),
                    fmt::format("divisors: {}", divisors(amount, 64)));
}

// Each key-value head stands on the same number of ranks, among which its columns are divided.
void check_copied_heads(const Check& check) {
  const Architecture& model = check.architecture();
  const std::int64_t tensor = check.sizes().tensor;
  if (tensor % model.kv_heads != 0) {
    check.file.report("/parallelism/tensor",
                      fmt::format("{} tensor ranks cannot share {} key-value heads evenly", tensor,
                                  model.kv_heads),
                      fmt::format("choose a divisor or a multiple of {}", model.kv_heads));
  } else {
    check_tensor_divides(check, 2 * model.kv_width(), "columns of keys and values");
  }
}

void check_tensor(const Check& check) {
  if (!check.model || !check.parallelism) return;
  const Architecture& model = check.architecture();
  check_tensor_divides(check, model.heads, "heads");
  if (model.kv_heads < model.heads) {
    if (replicates_kv_heads(model, check.sizes().tensor))
      check_copied_heads(check);
    else
      check_tensor_divides(check, model.kv_heads, "key-value heads");
  }
  check_tensor_divides(check, model.ffn, "feed-forward columns");
}

// How many pieces a sequence is cut into over the context ranks (and then over the tensor ranks).
void check_context_length(const Check& check) {
  const Parallelism& p = check.sizes();
  if (p.context == 1 || !check.training) return;
  const std::int64_t chunks = (p.context_split == ContextSplit::Zigzag ? 2 : 1) * p.context;
  const std::int64_t pieces = chunks * (p.sequence_parallel ? p.tensor : 1);
  if (check.batch().sequence_length % pieces != 0) {
    check.file.report(
        "/training/sequence_length",
        fmt::format("{} tokens do not divide into {} pieces: {} {} on {} context ranks{}",
                    check.batch().sequence_length, pieces, chunks,
                    p.context_split == ContextSplit::Zigzag ? "zigzag chunks" : "parts", p.context,
                    p.sequence_parallel ? fmt::format(" x {} tensor ranks", p.tensor) : ""),
        fmt::format("choose a multiple of {}", pieces));
  }
  if (check.batch().attention != AttentionKind::Flash) {
    check.file.report("/training/attention",
                      "must be \"flash\" where ranks share a sequence: partial results are joined "
                      "by the log-sum-exp of the flash kernel",
                      "choose \"flash\", or set /parallelism/context to 1");
  }
}

// Heads are traded for positions: each rank of the exchange takes some of a tensor rank's heads.
void check_context_heads(const Check& check, std::int64_t traders) {
  const Parallelism& p = check.sizes();
  const Architecture& model = check.architecture();
  if (traders == 1 || model.heads % p.tensor != 0) return;
  const std::int64_t heads = model.heads / p.tensor;
  if (heads % traders != 0) {
    check.file.report(
        "/parallelism/context",
        fmt::format("{} heads of a tensor rank do not divide among {} ranks that trade them for "
                    "positions",
                    heads, traders),
        fmt::format("divisors: {}; or choose another context_exchange", divisors(heads, 64)));
    return;
  }
  if (model.latent()) return;
  const std::int64_t kv_heads = kv_heads_per_rank(model, p.tensor);
  if (kv_heads % traders == 0 || traders % kv_heads == 0) return;
  check.file.report("/parallelism/context",
                    fmt::format("{} key-value heads of a tensor rank neither divide among {} ranks "
                                "nor can be copied evenly to them",
                                kv_heads, traders),
                    "one of the two numbers must divide the other");
}

void check_context(const Check& check) {
  if (!check.parallelism) return;
  const Parallelism& p = check.sizes();
  const bool hierarchical = p.context_exchange == ContextExchange::Hierarchical;
  const std::int64_t inner = p.context_all_to_all;
  if (hierarchical && (inner == 0 || p.context % inner != 0)) {
    check.file.report("/parallelism/context_all_to_all",
                      fmt::format("must divide the {} context ranks of an \"a2a+p2p\" exchange, "
                                  "not {}",
                                  p.context, inner),
                      fmt::format("divisors: {}", divisors(p.context, 64)));
    return;
  }
  if (!hierarchical && inner != 0) {
    check.file.report("/parallelism/context_all_to_all", "is only for the exchange \"a2a+p2p\"",
                      "leave it out, or set /parallelism/context_exchange to \"a2a+p2p\"");
  }
  check_context_length(check);
  if (check.model && check.architecture().window > 0 && p.context > 1)
    check.file.report("/parallelism/context",
                      "ranks that share a sequence exchange all keys: attention within a window is "
                      "not lowered for them",
                      "set it to 1, or /model/window to 0");
  if (check.model) check_context_heads(check, context_shape(p).heads);
}

void check_chunked_tensor(const Check& check) {
  const Parallelism& p = check.sizes();
  if (!check.parallelism || !p.chunked_tensor || p.sequence_parallel) return;
  check.file.report("/parallelism/chunked_tensor",
                    "is about the gathers and reductions of sequence_parallel, which is off",
                    "set /parallelism/sequence_parallel to true");
}

void check_gpus(const Check& check) {
  if (!check.cluster || !check.parallelism) return;
  const Parallelism& p = check.sizes();
  const ClusterSpec& cluster = check.scenario.cluster;
  const std::int64_t has = gpu_count(cluster);
  const std::int64_t needs = check.scenario.plan.world();
  if (has == needs) return;
  const std::int64_t replica = needs / p.data;
  std::string hint = "change the cluster, or one of these sizes";
  if (!cluster.custom && needs % cluster.node.gpus == 0) {
    hint = fmt::format("set /cluster/nodes to {}", needs / cluster.node.gpus);
    if (has % replica == 0) hint += fmt::format(", or /parallelism/data to {}", has / replica);
  } else if (has % replica == 0) {
    hint = fmt::format("set /parallelism/data to {}", has / replica);
  }
  check.file.report(
      "/parallelism",
      fmt::format(
          "needs {} GPUs (tensor {} x context {} x pipeline {} x data {}) but the cluster has {}",
          needs, p.tensor, p.context, p.pipeline, p.data, has),
      hint);
}

void check_batch(const Check& check) {
  if (!check.parallelism || !check.training) return;
  const std::int64_t round = check.round();
  const std::int64_t batch = check.batch().global_batch_size;
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

void check_layers(const Check& check) {
  if (!check.model || !check.parallelism || !check.sizes().operator_devices.empty()) return;
  const Parallelism& p = check.sizes();
  if (!p.layers_per_stage.empty() &&
      (p.embedding_in_split || p.loss_in_split || p.first_stage_layers || p.last_stage_layers)) {
    check.file.report("/parallelism/layers_per_stage",
                      "says it all: no other field of the split can stand beside it",
                      "leave first_stage_layers, last_stage_layers and the *_in_split out");
    return;
  }
  if ((p.embedding_in_split || p.loss_in_split) && (p.first_stage_layers || p.last_stage_layers)) {
    check.file.report(
        p.first_stage_layers ? "/parallelism/first_stage_layers" : "/parallelism/last_stage_layers",
        "cannot be given together with embedding_in_split or loss_in_split",
        "use one way to make the split uneven");
    return;
  }
  try {
    (void)layer_split(check.scenario.plan);
    if (check.training) check_recomputed_fraction(check.file, check.scenario);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) {
      check.file.report(problem.pointer, problem.problem, problem.hint);
    }
  }
}

void check_nccl(const Check& check) {
  if (!check.file.is_sound("/collectives/nccl")) return;
  try {
    (void)nccl::options_of(check.scenario.plan.collectives.nccl);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems()) {
      check.file.report("/collectives/nccl" + problem.pointer, problem.problem, problem.hint);
    }
  }
}

// Interleaving needs stages. The schedule's own rule is asked only where the batch divides: it
// needs the number of microbatches.
void check_schedule_shape(const Check& check) {
  if (!check.parallelism) return;
  if (check.sizes().interleave > 1 && check.sizes().pipeline == 1) {
    check.file.report("/parallelism/interleave",
                      fmt::format("{} chunks on one pipeline stage have nothing to interleave",
                                  check.sizes().interleave),
                      "set it to 1, or /parallelism/pipeline to more than 1");
    return;
  }
  if (!check.training) return;
  if (check.batch().global_batch_size % check.round() != 0) return;
  const Parallelism& p = check.sizes();
  const FoundSchedule schedule = open_schedule(p.schedule);
  if (!schedule) return;  // the reader has said so
  const auto refusal = schedule->refusal({.stages = p.pipeline,
                                          .microbatches = check.scenario.plan.microbatches(),
                                          .chunks = p.interleave,
                                          .group_size = p.microbatch_group_size});
  if (refusal) {
    check.file.report("/parallelism/schedule", *refusal);
  } else if (schedule->placement() != StagePlacement::Wrap && !p.overlap_p2p) {
    check.file.report("/parallelism/overlap_p2p",
                      p.schedule +
                          " sends both ways between two ranks at once; sends that block "
                          "would wait for each other",
                      "set overlap_p2p to true");
  } else if (check.model) {
    check_reduction_order(check.file, check.scenario, *schedule);
  }
}

void check_rank_order(const Check& check) {
  if (!check.parallelism) return;
  std::vector<std::string> dimensions;
  std::string order = check.sizes().rank_order;
  for (std::size_t end = 0; end != std::string::npos;) {
    end = order.find('-');
    dimensions.push_back(order.substr(0, end));
    order.erase(0, end == std::string::npos ? end : end + 1);
  }
  std::sort(dimensions.begin(), dimensions.end());
  if (dimensions == std::vector<std::string>{"cp", "dp", "ep", "pp", "tp"}) return;
  check.file.report("/parallelism/rank_order",
                    fmt::format("must name each of tp, cp, ep, dp, pp once, not \"{}\"",
                                check.sizes().rank_order),
                    "Megatron's order is \"tp-cp-ep-dp-pp\"");
}

// Sharded copies divide the replicas evenly; what only sharding gives a meaning is refused without.
void check_shards(const Check& check) {
  if (!check.parallelism) return;
  const Parallelism& p = check.sizes();
  const auto refuse = [&check](const char* field, const std::string& problem,
                               const std::string& hint) {
    check.file.report(std::string("/parallelism/") + field, problem, hint);
  };
  if (p.shard > 0 && p.data % p.shard != 0) {
    refuse("shard", fmt::format("{} replicas do not divide into copies of {}", p.data, p.shard),
           fmt::format("divisors: {}", divisors(p.data, 1024)));
  } else if (p.shard > 0 && p.zero_stage == 0) {
    refuse("shard", "has no meaning where nothing is sharded", "set zero_stage to 1, 2 or 3");
  } else if (p.reshard_group > 0 && p.zero_stage < 3) {
    refuse("reshard_group", "has no meaning where weights are not sharded", "set zero_stage to 3");
  } else if (p.reshard_group > 0 && p.shard_size() % p.reshard_group != 0) {
    refuse("reshard_group",
           fmt::format("{} does not divide the {} replicas that share the weights", p.reshard_group,
                       p.shard_size()),
           fmt::format("divisors: {}", divisors(p.shard_size(), 1024)));
  }
  if (p.gradient_buckets == BucketRule::Pytorch && p.zero_stage > 0) {
    refuse("gradient_buckets", "PyTorch's buckets are those of replicas that share nothing",
           "set zero_stage to 0, or leave gradient_buckets out");
  }
  if (p.gradient_buckets_in_flight > 0 && p.zero_stage != 2) {
    refuse("gradient_buckets_in_flight", "bounds the gradients of zero_stage 2 alone",
           "set zero_stage to 2, or leave gradient_buckets_in_flight out");
  }
  const bool both_ways = placement_of(p) == StagePlacement::Bidirectional;
  if (both_ways && (p.zero_stage > 1 || p.shard_size() < p.data)) {
    refuse("zero_stage",
           fmt::format("{} keeps every stage on two ranks, whose gradients and weights cannot be "
                       "sharded",
                       p.schedule),
           "set zero_stage to 0 or 1 and leave shard out");
  }
}

// One GPU for every rank, each once. Asked only where ranks and GPUs are equally many.
void check_placement(const Check& check) {
  if (!check.cluster || !check.parallelism || check.sizes().placement.empty()) return;
  const std::vector<std::int64_t>& placement = check.sizes().placement;
  const std::int64_t world = check.scenario.plan.world();
  if (static_cast<std::int64_t>(gpu_count(check.scenario.cluster)) != world) return;
  std::vector<std::int64_t> sorted = placement;
  std::sort(sorted.begin(), sorted.end());
  std::string problem;
  if (static_cast<std::int64_t>(placement.size()) != world) {
    problem = fmt::format("names {} GPUs for {} ranks", placement.size(), world);
  } else if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
             twice != sorted.end()) {
    problem = fmt::format("gives GPU {} to two ranks", *twice);
  } else if (sorted.back() >= world) {
    problem = fmt::format("names GPU {}, the last is {}", sorted.back(), world - 1);
  } else {
    return;
  }
  check.file.report("/parallelism/placement", problem,
                    fmt::format("list each of 0 to {} once, in the order of the ranks", world - 1));
}

}  // namespace

std::string divisors(std::int64_t number, std::int64_t most) {
  std::string text;
  for (std::int64_t divisor = 1; divisor <= std::min(number, most); ++divisor) {
    if (number % divisor != 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(divisor);
  }
  return text;
}

void check_scenario(JsonFile& file, const Scenario& scenario) {
  const Check check{file, scenario};
  const SoundSections sound{check.model, check.parallelism, check.training};
  if (!check_sizes(file, scenario, sound)) return;  // the other rules multiply the sizes
  check_rank_order(check);
  check_tensor(check);
  check_context(check);
  check_chunked_tensor(check);
  check_gpus(check);
  check_placement(check);
  check_batch(check);
  check_sequence(check);
  check_layers(check);
  check_schedule_shape(check);
  check_shards(check);
  check_experts(file, scenario, sound);
  check_recomputation(file, scenario, sound);
  check_adapters(file, scenario, sound);
  check_frozen(file, scenario, sound);
  check_operator_devices(file, scenario, sound);
  check_documents(file, scenario, sound);
  check_servers(file, scenario, sound);
  check_offload(file, scenario, sound);
  check_further_tokens(file, scenario, sound);
  check_nccl(check);
  if (check.cluster) check_gpu_profiles(file, scenario, sound);
  if (check.cluster) check_cluster_builds(check.file, "/cluster", check.scenario.cluster);
}

}  // namespace trainyard
