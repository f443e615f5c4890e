// The rules between the fields of a scenario, in addition to the rules of each single field.
//
// check_scenario() applies the rules one after the other. There is one file for each group of
// sections: parallelism_checks.cpp, tensor_checks.cpp, training_checks.cpp, expert_checks.cpp and
// cluster_checks.cpp.
#pragma once

#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

// Reports every violated rule to the file. A rule applies only where the sections that it joins
// were read without a problem, so that one mistake is not reported twice.
void check_scenario(JsonFile& file, const Scenario& scenario);

// The limit of microbatches. Steps with more would have many millions of operations, and no real
// run has them.
constexpr std::int64_t kMicrobatchesMost = 100'000;

// A scenario, and which of its sections were read without a problem before any rule was applied. A
// problem that one rule reports does not suppress the next rule.
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
  // Returns the number of sequences in one microbatch of all replicas together.
  [[nodiscard]] std::int64_t round() const { return batch().micro_batch_size * sizes().data; }
  // Reports the problems of an error at their pointers in this file, below the pointer `at`.
  void report(const InputError& error, const std::string& at = "") const;
};

// Returns the divisors of a number up to a limit, for hints.
[[nodiscard]] std::string divisors(std::int64_t number, std::int64_t most);

// A GPU profile and the pointer to the field that names it.
struct PlacedGpu {
  std::string pointer;
  std::string profile;
};
// Returns the profiles of all GPUs that the cluster names, each as often as it names it.
[[nodiscard]] std::vector<PlacedGpu> gpus_of(const ClusterSpec& cluster);

// parallelism_checks.cpp
// Checks that the order names every dimension once.
void check_rank_order(const Check& check);
// Checks that sequences and heads divide among the ranks that share a sequence.
void check_context(const Check& check);
// Checks that layers divide over the stages, and that the scenario gives one way to split them.
void check_layers(const Check& check);
// Checks that interleaving has stages and that the schedule accepts the shape. The schedule needs
// the number of microbatches, so this rule applies only where the batch divides into microbatches.
void check_schedule_shape(const Check& check);
// Checks that sharded copies divide the replicas evenly, and refuses settings of sharding without
// it.
void check_shards(const Check& check);
// Checks a model that is split by hand, operator by operator: it has one microbatch at a time and
// every operator on a device. It can be combined with replicas only.
void check_operator_devices(const Check& check);

// tensor_checks.cpp
// Checks that heads and columns divide among the tensor ranks, and that stages with unequal numbers
// of them can pass activations on.
void check_tensor(const Check& check);
// Checks that gathers and reductions in pieces come with sequence parallelism.
void check_chunked_tensor(const Check& check);

// training_checks.cpp
// Checks that the global batch divides into microbatches of the replicas.
void check_batch(const Check& check);
// Checks that sequences divide among the tensor ranks and fit the model's learned positions.
void check_sequence(const Check& check);
// Checks that the fraction of recomputed layers is at least one layer. REQUIRES: layers divide over
// the stages.
void check_recomputed_fraction(const Check& check);
// Checks that the modules and layers to recompute exist, and that the method reads the given
// fields.
void check_recomputation(const Check& check);
// Refuses MTP layers (multi-token prediction) together with features that are not modelled with
// them.
void check_mtp_layers(const Check& check);
// Checks that adapters are on matrices that exist, and on models that support them.
void check_adapters(const Check& check);
// Checks that frozen layers exist, and that some weights remain to train.
void check_frozen(const Check& check);
// Checks that documents fill their sequences, and that attention can skip other documents.
void check_documents(const Check& check);

// expert_checks.cpp
// Checks that experts divide among their groups, and that their settings fit the model and
// schedule.
void check_experts(const Check& check);

// cluster_checks.cpp
// Checks that the cluster has one GPU for each rank.
void check_gpus(const Check& check);
// Checks that a placement names every GPU once, where there are as many ranks as GPUs.
void check_placement(const Check& check);
// Checks that every GPU has a profile and supports the precisions of the training and its recipe.
void check_gpu_profiles(const Check& check);
// Checks that workers of parameter servers hold the whole model, and that the servers have GPUs.
void check_servers(const Check& check);
// Checks that workers that train apart come with nothing that is not modelled with them.
void check_local_steps(const Check& check);
// Checks that the speed of host memory is known, and that sharding does not gather offloaded
// weights.
void check_offload(const Check& check);

}  // namespace trainyard
