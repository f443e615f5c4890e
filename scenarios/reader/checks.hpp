// The rules that hold between the fields of a scenario, beyond each field alone.
//
// check_scenario() calls the rules one after the other. They stand in one file for each group of
// sections: parallelism_checks.cpp, training_checks.cpp, expert_checks.cpp and cluster_checks.cpp.
#pragma once

#include "scenarios/reader/scenario.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Reports every broken rule to the file. A rule is tried only where the sections that it joins were
// read without a problem, so that one mistake is not reported twice.
void check_scenario(JsonFile& file, const Scenario& scenario);

// A step of more microbatches has many millions of operations; no real run has.
constexpr std::int64_t kMicrobatchesMost = 100'000;

// The scenario, and which of its sections were read without a problem before any rule was tried. A
// problem that one rule reports does not silence the next rule.
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
  // Sequences in one microbatch of every replica together.
  [[nodiscard]] std::int64_t round() const { return batch().micro_batch_size * sizes().data; }
  // Reports the problems of an error at their places in this file, below the pointer `at`.
  void report(const InputError& error, const std::string& at = "") const;
};

// The divisors of a number up to a limit, for "choose one of".
[[nodiscard]] std::string divisors(std::int64_t number, std::int64_t most);

// parallelism_checks.cpp
// The order names every dimension once.
void check_rank_order(const Check& check);
// Heads and columns divide among the tensor ranks.
void check_tensor(const Check& check);
// Sequences and heads divide among the ranks that share a sequence.
void check_context(const Check& check);
// Gathers and reductions in pieces need sequence parallelism.
void check_chunked_tensor(const Check& check);
// Layers divide over the stages, and one way of splitting them is given.
void check_layers(const Check& check);
// Interleaving needs stages, and the schedule accepts the shape. The schedule is asked only where
// the batch divides, since it needs the number of microbatches.
void check_schedule_shape(const Check& check);
// Sharded copies divide the replicas evenly, and settings of sharding are refused without it.
void check_shards(const Check& check);
// A model split by hand, operator by operator, has one microbatch in it at a time and every
// operator on a device; only replicas are allowed beside it.
void check_operator_devices(const Check& check);

// training_checks.cpp
// The global batch divides into microbatches of the replicas.
void check_batch(const Check& check);
// Sequences divide among the tensor ranks and fit the positions that the model has learned.
void check_sequence(const Check& check);
// The fraction of layers to compute again is one layer at least. REQUIRES: layers divide over the
// stages.
void check_recomputed_fraction(const Check& check);
// The modules and layers to compute again exist, and the chosen method reads the given fields.
void check_recomputation(const Check& check);
// Layers of multi-token prediction stand beside nothing that they are not modelled with.
void check_mtp_layers(const Check& check);
// Adapters stand on matrices that exist, of models that can have them.
void check_adapters(const Check& check);
// Frozen layers exist, and something is left to train.
void check_frozen(const Check& check);
// Documents fill their sequences, and attention can skip other documents.
void check_documents(const Check& check);

// expert_checks.cpp
// Experts divide among their groups, and settings of experts fit the model and the schedule.
void check_experts(const Check& check);

// cluster_checks.cpp
// The cluster has one GPU for each rank.
void check_gpus(const Check& check);
// A placement names every GPU once. The rule is asked only where ranks and GPUs are equally many.
void check_placement(const Check& check);
// Every GPU has a profile, and multiplies numbers of the training's precision and of its recipe.
void check_gpu_profiles(const Check& check);
// Workers of parameter servers hold the whole model, and the servers have GPUs.
void check_servers(const Check& check);
// The speed of host memory is known, and offloaded weights are not gathered by sharding.
void check_offload(const Check& check);

}  // namespace trainyard
