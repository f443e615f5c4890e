#include "scenarios/memory/changes.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard {

namespace {

using Words = std::vector<std::string>;

bool recompute_modules_of(Knobs& knobs, Words modules) {
  Training& t = knobs.training;
  if (t.recompute == Recompute::Full) return false;
  if (t.recompute == Recompute::Selective && t.recompute_modules == modules) return false;
  t.recompute = Recompute::Selective;
  t.recompute_modules = std::move(modules);
  return true;
}

// Every `every`-th layer; 1 is all of them, one checkpoint each.
bool recompute_layers(Knobs& knobs, std::int64_t every) {
  Training& t = knobs.training;
  const bool all = t.recompute == Recompute::Full &&
                   (t.recompute_method == "uniform" || t.recompute_num_layers == 1);
  if (all || (t.recompute == Recompute::Full && every > 1)) return false;
  t.recompute = Recompute::Full;
  t.recompute_method = every > 1 ? "every" : "uniform";
  t.recompute_num_layers = every;
  return true;
}

// One checkpoint for so many layers, where each has its own.
bool recompute_groups(Knobs& knobs, std::int64_t layers) {
  Training& t = knobs.training;
  const bool single = t.recompute == Recompute::Full && t.recompute_method == "uniform" &&
                      t.recompute_num_layers < layers;
  if (single) t.recompute_num_layers = layers;
  return single;
}

bool shard_more(Knobs& knobs, std::int64_t stages) {
  Parallelism& p = knobs.parallelism;
  p.zero_stage += stages;
  return p.data * p.context > 1 && p.zero_stage <= 3;
}

bool divide_micro_batch(Knobs& knobs, std::int64_t by) {
  std::int64_t& size = knobs.training.micro_batch_size;
  if (size % by != 0) return false;
  size /= by;
  return true;
}

// Takes half of the replicas for twice the ranks of another dimension.
bool trade(Knobs& knobs, std::int64_t Parallelism::*dimension) {
  Parallelism& p = knobs.parallelism;
  if (p.data % 2 != 0) return false;
  p.data /= 2;
  p.*dimension *= 2;
  return true;
}

bool one_chunk(Knobs& knobs) {
  Parallelism& p = knobs.parallelism;
  if (p.schedule != "interleaved_1f1b" || p.interleave == 1) return false;
  p.schedule = "1f1b";
  p.interleave = 1;
  return true;
}

// Schedules that give a microbatch's activations back sooner, at the cost of bubbles.
bool controlled_schedule(Knobs& knobs, const char* name) {
  Parallelism& p = knobs.parallelism;
  if (p.pipeline == 1 || (p.schedule != "1f1b" && p.schedule != "interleaved_1f1b")) return false;
  p.schedule = name;
  p.interleave = 2;
  return true;
}

bool smaller_states(Knobs& knobs, const std::string& name) {
  std::string& now = knobs.training.optimizer;
  if (now != "adam" && !(now == "adam_16bit_moments" && name == "adam_8bit")) return false;
  now = name;
  return true;
}

bool offload_activations(Knobs& knobs, double share) {
  if (knobs.offload.activations >= share) return false;
  knobs.offload.activations = share;
  return true;
}

bool offload_optimizer(Knobs& knobs, OffloadedOptimizer where) {
  if (knobs.offload.optimizer != OffloadedOptimizer::None) return false;
  knobs.offload.optimizer = where;
  return true;
}

bool turn_on(bool& flag) {
  if (flag) return false;
  return flag = true;
}

std::vector<FitChange> all_changes() {
  return {
      {"recompute", [](Knobs& k) { return recompute_modules_of(k, {"core_attn"}); }},
      {"recompute",
       [](Knobs& k) {
         return k.experts && recompute_modules_of(k, {"layernorm", "moe_act"});
       }},
      {"recompute",
       [](Knobs& k) {
         return !k.experts && recompute_modules_of(k, {"layernorm", "mlp"});
       }},
      {"recompute",
       [](Knobs& k) { return !k.experts && recompute_modules_of(k, {"second_products"}); }},
      {"recompute", [](Knobs& k) { return recompute_layers(k, 4); }},
      {"recompute", [](Knobs& k) { return recompute_layers(k, 2); }},
      {"recompute", [](Knobs& k) { return recompute_layers(k, 1); }},
      {"recompute", [](Knobs& k) { return recompute_groups(k, 4); }},
      {"micro_batch", [](Knobs& k) { return divide_micro_batch(k, 2); }},
      {"micro_batch", [](Knobs& k) { return divide_micro_batch(k, 4); }},
      {"loss", [](Knobs& k) { return turn_on(k.training.fused_loss); }},
      {"zero", [](Knobs& k) { return shard_more(k, 1); }},
      {"zero", [](Knobs& k) { return shard_more(k, 2); }},
      {"zero", [](Knobs& k) { return shard_more(k, 3); }},
      {"sequence_parallel",
       [](Knobs& k) {
         return k.parallelism.tensor > 1 && turn_on(k.parallelism.sequence_parallel);
       }},
      {"tensor",
       [](Knobs& k) {
         k.parallelism.sequence_parallel = true;
         return trade(k, &Parallelism::tensor);
       }},
      {"pipeline", [](Knobs& k) { return trade(k, &Parallelism::pipeline); }},
      {"context", [](Knobs& k) { return trade(k, &Parallelism::context); }},
      {"expert",
       [](Knobs& k) {
         k.parallelism.expert *= 2;
         return k.experts;
       }},
      {"schedule", [](Knobs& k) { return one_chunk(k); }},
      {"schedule", [](Knobs& k) { return controlled_schedule(k, "v_half"); }},
      {"schedule", [](Knobs& k) { return controlled_schedule(k, "v_min"); }},
      {"optimizer", [](Knobs& k) { return smaller_states(k, "adam_16bit_moments"); }},
      {"optimizer", [](Knobs& k) { return smaller_states(k, "adam_8bit"); }},
      {"gradients",
       [](Knobs& k) {
         if (k.training.gradient_precision != DataType::Fp32) return false;
         k.training.gradient_precision = k.training.precision;
         return k.training.precision != DataType::Fp32;
       }},
      {"offload_activations", [](Knobs& k) { return offload_activations(k, 0.5); }},
      {"offload_activations", [](Knobs& k) { return offload_activations(k, 1.0); }},
      {"offload_optimizer",
       [](Knobs& k) { return offload_optimizer(k, OffloadedOptimizer::Fetch); }},
      {"offload_optimizer", [](Knobs& k) { return offload_optimizer(k, OffloadedOptimizer::Cpu); }},
      {"offload_weights", [](Knobs& k) { return turn_on(k.offload.weights); }},
      {"gpus",
       [](Knobs& k) {
         k.nodes *= 2;
         k.parallelism.data *= 2;
         return k.nodes > 0;
       }},
  };
}

const char* word_of(Recompute recompute) {
  if (recompute == Recompute::None) return "none";
  return recompute == Recompute::Selective ? "selective" : "full";
}

const char* word_of(DataType precision) { return precision == DataType::Fp16 ? "fp16" : "bf16"; }

// Overrides, field by field.
class Differences {
 public:
  void number(const char* path, std::int64_t before, std::int64_t after) {
    if (before != after) overrides.push_back({path, std::to_string(after)});
  }
  void word(const char* path, const std::string& before, const std::string& after) {
    if (before != after) overrides.push_back({path, after});
  }
  void flag(const char* path, bool before, bool after) {
    if (before != after) overrides.push_back({path, after ? "true" : "false"});
  }

  std::vector<Override> overrides = {};
};

void training_differences(const Training& before, const Training& after, Differences& all) {
  all.word("training.recompute", word_of(before.recompute), word_of(after.recompute));
  if (after.recompute == Recompute::Selective)
    all.word("training.recompute_modules", nlohmann::json(before.recompute_modules).dump(),
             nlohmann::json(after.recompute_modules).dump());
  if (after.recompute == Recompute::Full) {
    all.word("training.recompute_method", before.recompute_method, after.recompute_method);
    all.number("training.recompute_num_layers", before.recompute_num_layers,
               after.recompute_num_layers);
  }
  all.number("training.micro_batch_size", before.micro_batch_size, after.micro_batch_size);
  all.flag("training.fused_loss", before.fused_loss, after.fused_loss);
  all.word("training.optimizer", before.optimizer, after.optimizer);
  if (before.gradient_precision != after.gradient_precision)
    all.overrides.push_back({"training.gradient_precision", word_of(after.gradient_precision)});
}

void parallelism_differences(const Parallelism& before, const Parallelism& after,
                             Differences& all) {
  all.number("parallelism.zero_stage", before.zero_stage, after.zero_stage);
  all.flag("parallelism.sequence_parallel", before.sequence_parallel, after.sequence_parallel);
  all.number("parallelism.tensor", before.tensor, after.tensor);
  all.number("parallelism.pipeline", before.pipeline, after.pipeline);
  all.number("parallelism.context", before.context, after.context);
  all.number("parallelism.expert", before.expert, after.expert);
  all.number("parallelism.data", before.data, after.data);
  all.word("parallelism.schedule", before.schedule, after.schedule);
  all.number("parallelism.interleave", before.interleave, after.interleave);
}

}  // namespace

Knobs knobs_of(const Scenario& scenario) {
  const ClusterSpec& cluster = scenario.cluster;
  const bool equal = !cluster.custom && cluster.others.empty() && cluster.faults.empty();
  return {.parallelism = scenario.plan.parallelism,
          .training = scenario.plan.training,
          .offload = scenario.plan.offload,
          .nodes = equal ? static_cast<std::int64_t>(cluster.nodes) : 0,
          .experts = scenario.plan.architecture.has_experts()};
}

const std::vector<FitChange>& fit_changes() {
  static const std::vector<FitChange> kChanges = all_changes();
  return kChanges;
}

std::vector<Override> difference(const Scenario& scenario, const Knobs& knobs) {
  Differences all;
  training_differences(scenario.plan.training, knobs.training, all);
  parallelism_differences(scenario.plan.parallelism, knobs.parallelism, all);
  const OffloadSettings& offload = scenario.plan.offload;
  if (offload.activations != knobs.offload.activations)
    all.overrides.push_back({"offload.activations", fmt::format("{}", knobs.offload.activations)});
  if (offload.optimizer != knobs.offload.optimizer)
    all.overrides.push_back({"offload.optimizer",
                             knobs.offload.optimizer == OffloadedOptimizer::Cpu ? "cpu" : "fetch"});
  all.flag("offload.weights", offload.weights, knobs.offload.weights);
  if (const Knobs before = knobs_of(scenario); before.nodes != knobs.nodes)
    all.number("cluster.nodes", before.nodes, knobs.nodes);
  return std::move(all.overrides);
}

}  // namespace trainyard
