// Rows of the section that divides a model among ranks (split_checks.hpp and checks.hpp have its
// rules).
#include "models/schedules/schedule.hpp"
#include "scenarios/reader/tables.hpp"
#include "sim/base/words.hpp"

namespace trainyard {

namespace {

constexpr Words<ContextExchange, 4> kContextExchange{{{ContextExchange::Ring, "p2p"},
                                                      {ContextExchange::AllGather, "all_gather"},
                                                      {ContextExchange::AllToAll, "a2a"},
                                                      {ContextExchange::Hierarchical, "a2a+p2p"}}};
constexpr Words<ContextSplit, 2> kContextSplit{
    {{ContextSplit::Zigzag, "zigzag"}, {ContextSplit::Contiguous, "contiguous"}}};
constexpr Words<Reshard, 3> kReshard{
    {{Reshard::Auto, "auto"}, {Reshard::Always, "always"}, {Reshard::Never, "never"}}};
constexpr Words<BucketRule, 2> kBuckets{
    {{BucketRule::Megatron, "megatron"}, {BucketRule::Pytorch, "pytorch"}}};
constexpr Words<WeightExchange, 2> kWeightExchange{
    {{WeightExchange::AllGather, "all_gather"}, {WeightExchange::Broadcast, "broadcast"}}};

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule* schedule : schedules()) names.emplace_back(schedule->name());
  return names;
}

constexpr std::int64_t kParametersMost = 1'000'000'000'000'000;

using P = Parallelism;
const Field<P> kParallelism[] = {
    {"tensor", "ranks that share every layer (TP)", Whole<P>{&P::tensor}},
    {"sequence_parallel", "norms and dropout are split along the sequence over the tensor ranks",
     Flag<P>{&P::sequence_parallel}},
    {"pipeline", "stages that the layers are dealt to (PP)", Whole<P>{&P::pipeline}},
    {"interleave", "model chunks per pipeline rank, for interleaved_1f1b",
     Whole<P>{&P::interleave}},
    {"data", "replicas of the model (DP)", Whole<P>{&P::data}},
    {"context", "ranks that share every sequence (CP)", Whole<P>{&P::context}},
    {"context_exchange",
     "how they come by each other's keys and values: passed round a ring, gathered, heads traded "
     "for positions, or heads within small groups and a ring between them",
     word_of<P, &P::context_exchange, kContextExchange>()},
    {"context_split", "causal work dealt evenly (2 x context chunks), or one piece for each rank",
     word_of<P, &P::context_split, kContextSplit>()},
    {"context_all_to_all", "context_exchange a2a+p2p: ranks that trade heads among themselves",
     Whole<P>{&P::context_all_to_all, 0}},
    {"expert", "groups of ranks that the experts are dealt to (EP)", Whole<P>{&P::expert}},
    {"expert_tensor", "ranks that share each expert; 0 means as many as tensor",
     Whole<P>{&P::expert_tensor, 0}},
    {"schedule", "the order of forward and backward steps of a pipeline rank, or a file with one",
     name_or_file<P, &P::schedule, schedule_names>()},
    {"microbatch_group_size",
     "interleaved_1f1b: microbatches that go through one chunk before the next; "
     "0 means the number of stages",
     Whole<P>{&P::microbatch_group_size, 0}},
    {"zero_stage",
     "what is sharded over the replicas: 1 the optimizer state, 2 gradients too, 3 weights too",
     Whole<P>{&P::zero_stage, 0, 3}},
    {"shard", "replicas that share one sharded copy (HSDP); 0 means all of them",
     Whole<P>{&P::shard, 0}},
    {"reshard_after_forward",
     "zero_stage 3: weights are given back after a forward; auto: those of the layers, and not in "
     "a pipeline",
     word_of<P, &P::reshard_after_forward, kReshard>()},
    {"reshard_group",
     "zero_stage 3: ranks over which weights stay sharded between forward and backward (ZeRO++ "
     "hpZ); 0 means all that share them",
     Whole<P>{&P::reshard_group, 0}},
    {"forward_prefetch", "zero_stage 3: layers whose weights are asked for before a forward",
     Whole<P>{&P::forward_prefetch, 0}},
    {"backward_prefetch", "zero_stage 3: the next layer's weights are gathered during a backward",
     Flag<P>{&P::backward_prefetch}},
    {"reduce_every_microbatch",
     "zero_stage 2 and 3: gradients are reduced after each microbatch, not once a step",
     Flag<P>{&P::reduce_every_microbatch}},
    {"gradient_buckets_in_flight",
     "zero_stage 2: buckets of gradients that exist at once, computation waits before it fills "
     "another one; 0 means as many as the framework has",
     Whole<P>{&P::gradient_buckets_in_flight, 0}},
    {"gradient_buckets", "whose rules put gradients into buckets",
     word_of<P, &P::gradient_buckets, kBuckets>()},
    {"overlap_grad_reduce", "gradients are reduced bucket by bucket during the last backward",
     Flag<P>{&P::overlap_grad_reduce}},
    {"overlap_param_gather", "zero_stage 1 and 2: weights are gathered during the first forward",
     Flag<P>{&P::overlap_param_gather}},
    {"weight_exchange",
     "zero_stage 1 and 2: updated weights are gathered bucket by bucket, or broadcast by one owner "
     "after another",
     word_of<P, &P::weight_exchange, kWeightExchange>()},
    {"bucket_parameters",
     "parameters of one gradient bucket; 0 means max(40e6, 1e6 x data), or 25 MiB by PyTorch's "
     "rules",
     Whole<P>{&P::bucket_parameters, 0, kParametersMost}},
    {"first_stage_layers", "layers of the first pipeline rank where the split is uneven",
     OptionalWhole<P>{&P::first_stage_layers, 0}},
    {"last_stage_layers", "layers of the last pipeline rank where the split is uneven",
     OptionalWhole<P>{&P::last_stage_layers, 0}},
    {"layers_per_stage", "layers of every virtual stage in model order, where the split is by hand",
     Wholes<P>{&P::layers_per_stage, 0}},
    {"operator_devices",
     "the device of every operator, where a model is split by hand over `pipeline` devices: "
     "{\"attention_block 0-15\": 0}; operators are embedding, attention_norm, attention, mlp_norm, "
     "mlp, experts, final_norm, head, loss, and layer, attention_block, mlp_block, head_block of "
     "several",
     NamedWholes<P>{[](const P& p) {
                      NamedWholes<P>::Entries entries;
                      for (const OperatorRule& rule : p.operator_devices)
                        entries.emplace_back(rule.operators, rule.device);
                      return entries;
                    },
                    [](P& p, const std::string& operators, std::int64_t device) {
                      p.operator_devices.push_back({.operators = operators, .device = device});
                    }}},
    {"embedding_in_split", "the embedding takes the place of one layer of the split",
     Flag<P>{&P::embedding_in_split}},
    {"loss_in_split", "head and loss take the place of one layer of the split",
     Flag<P>{&P::loss_in_split}},
    {"scatter_gather",
     "without sequence_parallel: stages send 1/tensor of an activation each and gather it",
     Flag<P>{&P::scatter_gather}},
    {"overlap_p2p", "messages between stages overlap with computation", Flag<P>{&P::overlap_p2p}},
    {"overlap_tensor",
     "input gradients are reduced over the tensor group during the weight gradient",
     Flag<P>{&P::overlap_tensor}},
    {"chunked_tensor",
     "sequence_parallel: gathers and reductions run in pieces beside the products they belong to",
     Flag<P>{&P::chunked_tensor}},
    {"rank_order", "dimensions from fastest to slowest, each of tp, cp, ep, dp, pp once",
     Text<P>{&P::rank_order}},
    {"placement",
     "the GPU of every rank, counted node by node, each once; or the path of a .json file with "
     "that "
     "list; without it rank r runs on GPU r",
     Wholes<P>{&P::placement}},
};

}  // namespace

std::span<const Field<Parallelism>> parallelism_fields() { return kParallelism; }

}  // namespace trainyard
