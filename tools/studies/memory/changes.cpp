#include "tools/studies/memory/changes.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "models/schedules/schedule.hpp"
#include "scenarios/reader/tables.hpp"

namespace trainyard {

namespace {

// This and the following functions change the settings. They return false if the change does not
// apply or changes nothing; the settings are then not used.
bool recompute_modules_of(Knobs& knobs, const RecomputeModules& modules) {
  Training& t = knobs.training;
  if (t.recompute == Recompute::Full) return false;
  if (t.recompute == Recompute::Selective && t.recompute_modules == modules) return false;
  t.recompute = Recompute::Selective;
  t.recompute_modules = modules;
  return true;
}

// Recomputes every `every`-th layer. 1 means all layers, with one checkpoint each.
bool recompute_layers(Knobs& knobs, std::int64_t every) {
  Training& t = knobs.training;
  const bool all = t.recompute == Recompute::Full &&
                   (t.recompute_method == RecomputeMethod::Uniform ||
                    (t.recompute_method == RecomputeMethod::Every && t.recompute_num_layers == 1));
  if (all || (t.recompute == Recompute::Full && every > 1)) return false;
  t.recompute = Recompute::Full;
  t.recompute_method = every > 1 ? RecomputeMethod::Every : RecomputeMethod::Uniform;
  t.recompute_num_layers = every;
  t.recompute_fraction.reset();
  t.recompute_layers.clear();
  return true;
}

// Uses one checkpoint for a group of `layers` layers, if each layer has its own checkpoint so far.
bool recompute_groups(Knobs& knobs, std::int64_t layers) {
  Training& t = knobs.training;
  const bool single = t.recompute == Recompute::Full &&
                      t.recompute_method == RecomputeMethod::Uniform &&
                      t.recompute_num_layers < layers;
  if (single) t.recompute_num_layers = layers;
  return single;
}

// Context ranks count as well, because the state is sharded over them, too.
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

// Halves the replicas and doubles the ranks of another dimension.
bool trade(Knobs& knobs, std::int64_t Parallelism::*dimension) {
  Parallelism& p = knobs.parallelism;
  if (p.data % 2 != 0) return false;
  p.data /= 2;
  p.*dimension *= 2;
  if (p.tensor_per_stage.empty()) return true;
  for (std::int64_t& tensor : p.tensor_per_stage) tensor *= 2;
  return dimension == &Parallelism::tensor;
}

bool is_one_f_one_b(const Parallelism& p) {
  const Schedule* schedule = find_schedule(p.schedule);
  return schedule != nullptr && schedule->is_one_f_one_b();
}

bool one_chunk(Knobs& knobs) {
  Parallelism& p = knobs.parallelism;
  if (!is_one_f_one_b(p) || p.interleave == 1) return false;
  p.schedule = one_f_one_b(1).name();
  p.interleave = 1;
  return true;
}

// Uses a schedule that frees the activations of a microbatch earlier, at the cost of bubbles.
bool controlled_schedule(Knobs& knobs, const char* name) {
  Parallelism& p = knobs.parallelism;
  if (p.pipeline == 1 || !is_one_f_one_b(p)) return false;
  p.schedule = name;
  p.interleave = 2;
  return true;
}

// Uses an optimizer with the same step but smaller moments.
bool smaller_states(Knobs& knobs, const std::string& name) {
  const auto moments = [](const Optimizer& o) {
    return o.first_moment_bytes + o.second_moment_bytes;
  };
  const Optimizer now = load_optimizer(knobs.training.optimizer), next = load_optimizer(name);
  if (next.step != now.step || moments(next) >= moments(now)) return false;
  knobs.training.optimizer = name;
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

// The search never combines two changes of one kind. Milder and stronger variants are therefore
// separate entries. A change need not be legal: the checks of scenarios refuse, for example, more
// expert ranks than experts.
std::vector<FitChange> all_changes() {
  return {
      {"recompute", [](Knobs& k) { return recompute_modules_of(k, {}); }},
      {"recompute",
       [](Knobs& k) {
         return k.experts &&
                recompute_modules_of(k, {.core = false, .norms = true, .expert_activation = true});
       }},
      {"recompute",
       [](Knobs& k) {
         return !k.experts &&
                recompute_modules_of(k, {.core = false, .norms = true, .feed_forward = true});
       }},
      {"recompute",
       [](Knobs& k) {
         return !k.experts && recompute_modules_of(k, {.core = false, .second_gemms = true});
       }},
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
         // Without it, each tensor rank holds the activations outside of attention and feed-forward
         // whole, so that more ranks would free less.
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

// Adds the fields of a section that differ, as overrides. A field that the new settings do not
// write becomes null.
template <class Owner>
void add_differences(const std::string& section, std::span<const Field<Owner>> fields,
                     const Owner& before, const Owner& after, std::vector<Override>& overrides) {
  const auto then = write_fields(fields, before);
  const auto now = write_fields(fields, after);
  for (const auto& [name, value] : now.items())
    if (!then.contains(name) || then.at(name) != value)
      overrides.push_back({section + "." + name,
                           value.is_string() ? value.template get<std::string>() : value.dump()});
  for (const auto& [name, value] : then.items())
    if (!now.contains(name)) overrides.push_back({section + "." + name, "null"});
}

}  // namespace

Knobs knobs_of(const Scenario& scenario) {
  const ClusterSpec& cluster = scenario.cluster;
  // A cluster that is custom, of several kinds of nodes or faulty has 0 nodes here, which means
  // that no change may add nodes.
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
  std::vector<Override> overrides;
  const TrainingPlan& plan = scenario.plan;
  add_differences("training", training_fields(), plan.training, knobs.training, overrides);
  add_differences("parallelism", parallelism_fields(), plan.parallelism, knobs.parallelism,
                  overrides);
  add_differences("offload", offload_fields(), plan.offload, knobs.offload, overrides);
  if (knobs_of(scenario).nodes != knobs.nodes)
    overrides.push_back({"cluster.nodes", std::to_string(knobs.nodes)});
  return overrides;
}

}  // namespace trainyard
