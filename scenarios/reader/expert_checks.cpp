// Rules of a mixture of experts: which sizes divide each other, and which settings are compatible.
#include <fmt/format.h>

#include <numeric>
#include <string>

#include "models/rank_groups.hpp"
#include "models/schedules/schedule.hpp"
#include "scenarios/reader/checks.hpp"

namespace trainyard {

namespace {

// Checks that the schedule can run each backward and the forward before it as one block.
void check_expert_overlap(const Check& check) {
  const Parallelism& p = check.sizes();
  if (!check.file.is_sound("/experts") || !check.scenario.plan.experts.overlap_dispatch) return;
  const Schedule* const schedule = find_schedule(p.schedule);
  if (schedule == nullptr || !schedule->may_overlap_pairs(p.pipeline)) {
    check.file.report(
        "/experts/overlap_dispatch",
        "pairs the steps of interleaved_1f1b, or of 1f1b on one stage: on several stages without "
        "chunks every block would wait for the whole block of its neighbour",
        "choose interleaved_1f1b; dualpipe and dualpipe_v have pairs of their own");
  }
  if (p.pipeline > 1 && !p.overlap_p2p) {
    check.file.report("/experts/overlap_dispatch",
                      "needs messages between stages that do not hold up the block",
                      "set /parallelism/overlap_p2p to true");
  }
}

void check_expert_sizes(const Check& check) {
  const Architecture& a = check.architecture();
  const Parallelism& p = check.sizes();
  const std::int64_t shared = p.expert_tensor_size();
  if (a.experts % p.expert != 0) {
    check.file.report("/parallelism/expert",
                      fmt::format("{} experts do not divide among {} groups", a.experts, p.expert),
                      fmt::format("divisors: {}", divisors(a.experts, 512)));
  }
  if (a.expert_ffn % shared != 0) {
    check.file.report(
        "/parallelism/expert_tensor",
        fmt::format("{} columns of an expert do not divide among {} ranks", a.expert_ffn, shared),
        fmt::format("divisors: {}", divisors(a.expert_ffn, 64)));
  }
  const std::int64_t ranks = p.tensor * p.context * p.data;
  if (ranks % (p.expert * shared) != 0) {
    check.file.report("/parallelism/expert",
                      fmt::format("a stage has {} ranks (tensor {} x context {} x data {}), which "
                                  "do not divide by expert {} x expert_tensor {}",
                                  ranks, p.tensor, p.context, p.data, p.expert, shared),
                      fmt::format("with expert_tensor {}, expert divides {}", shared,
                                  ranks % shared == 0 ? ranks / shared : ranks));
  } else if (check.file.is_sound("/parallelism/rank_order") && !ExpertGrid::same_stages(p)) {
    check.file.report(
        "/parallelism/rank_order",
        fmt::format("\"{}\" puts ranks of one expert on different pipeline stages", p.rank_order),
        "name pp last or first");
  }
}

// Checks that a sharded copy, and a group that holds weights between forward and backward, consists
// of whole sets of experts.
void check_expert_shards(JsonFile& file, const Parallelism& p) {
  const std::int64_t set = p.expert * p.expert_tensor_size();
  const auto check = [&](const char* field, std::int64_t replicas) {
    const std::int64_t ranks = p.tensor * p.context * replicas;
    if (replicas == 0 || ranks % set == 0) return;
    file.report(
        std::string("/parallelism/") + field,
        fmt::format("{} replicas have {} ranks of a stage (tensor {} x context {}), which is no "
                    "multiple of the {} that one set of experts needs (expert {} x expert_tensor "
                    "{})",
                    replicas, ranks, p.tensor, p.context, set, p.expert, p.expert_tensor_size()),
        fmt::format("choose a multiple of {}", set / std::gcd(set, p.tensor * p.context)));
  };
  check("shard", p.shard);
  check("reshard_group", p.reshard_group);
}

}  // namespace

void check_experts(const Check& check) {
  if (!check.model || !check.parallelism) return;
  const Architecture& a = check.architecture();
  const Parallelism& p = check.sizes();
  if (!a.has_experts()) {
    if (p.expert > 1)
      check.file.report(
          "/parallelism/expert",
          fmt::format("{} has no experts to divide among {} groups", a.name, p.expert),
          "set it to 1, or choose a model with experts");
    if (check.file.is_sound("/experts") && check.scenario.plan.experts.overlap_dispatch)
      check.file.report("/experts/overlap_dispatch",
                        fmt::format("{} has no experts whose dispatch could overlap", a.name),
                        "leave it out, or choose a model with experts");
    return;
  }
  const std::int64_t tokens =
      check.batch().micro_batch_size * check.batch().sequence_length / p.context;
  if (check.training && !p.sequence_parallel && tokens % p.tensor != 0)
    check.file.report(
        "/training/sequence_length",
        fmt::format("{} tokens of a microbatch do not divide among {} tensor ranks, each of "
                    "which sends a share of them to the experts",
                    tokens, p.tensor),
        fmt::format("choose a multiple of {}", p.tensor));
  check_expert_sizes(check);
  check_expert_shards(check.file, p);
  check_expert_overlap(check);
  if (!check.file.is_sound("/experts")) return;
  const ExpertSettings& experts = check.scenario.plan.experts;
  if (experts.routing == RoutingKind::Recorded && experts.counts.empty())
    check.file.report("/experts/counts", "is missing, but routing is recorded",
                      "name a file with the tokens of each expert, layer by layer");
  if (experts.pad_to_capacity && experts.capacity_factor <= 0.0)
    check.file.report("/experts/pad_to_capacity", "has no capacity to pad to",
                      "give a capacity_factor");
}

}  // namespace trainyard
