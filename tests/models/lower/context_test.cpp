// Context parallelism: what each rank of a shared sequence computes and sends, and that all ranks
// together do exactly the model's work (Liu et al. 2023, arXiv 2310.01889; Jacobs et al. 2023,
// arXiv 2309.14509; TransformerEngine attention/dot_product_attention/context_parallel.py; oracles
// 66 to 68).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "models/architecture/weights.hpp"
#include "models/attention_pairs.hpp"
#include "models/layers/attention_core.hpp"
#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "sim/timeline/memory.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

std::int64_t ring_pairs(const SequenceCut& cut, std::int64_t rank) {
  std::int64_t pairs = 0;
  for (std::int64_t source = 0; source < cut.ranks; ++source) {
    if (const auto block = ring_block(cut, {.rank = rank, .source = source})) pairs += block->pairs;
  }
  return pairs;
}

std::int64_t gathered_pairs(const SequenceCut& cut, std::int64_t rank) {
  return gathered_block(cut, rank).pairs;
}

// Does a zigzag split give every rank the same number of pairs (oracle 66)?
TEST(ContextBlocks, AZigzagGivesEveryRankTheSamePairs) {
  const SequenceCut cut{.sequence = 8192, .ranks = 4, .split = ContextSplit::Zigzag};
  std::int64_t total = 0;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(ring_pairs(cut, rank), 8'389'632);
    EXPECT_EQ(gathered_pairs(cut, rank), 8'389'632);
    total += ring_pairs(cut, rank);
    for (std::int64_t source = 0; source < 4; ++source) {
      const AttentionBlock block = ring_block(cut, {.rank = rank, .source = source}).value();
      EXPECT_EQ(block.pairs, rank == source ? 2048 * 2049 / 2 : 2048 * 1024) << "at every step";
    }
  }
  EXPECT_EQ(total, 33'558'528);
  EXPECT_EQ(total, 8192 * 8193 / 2);
}

// The pairs that a mask over the real positions leaves, counted one by one.
std::int64_t counted_pairs(const std::vector<std::int64_t>& queries,
                           const std::vector<std::int64_t>& keys) {
  std::int64_t pairs = 0;
  for (const std::int64_t query : queries) {
    for (const std::int64_t key : keys) pairs += key <= query ? 1 : 0;
  }
  return pairs;
}

std::vector<std::int64_t> positions_of(const SequenceCut& cut, std::int64_t rank) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(cut.local()));
  if (cut.split == ContextSplit::Contiguous) {
    std::iota(positions.begin(), positions.end(), rank * cut.local());
    return positions;
  }
  const auto half = positions.begin() + cut.local() / 2;
  std::iota(positions.begin(), half, rank * cut.local() / 2);
  std::iota(half, positions.end(), (2 * cut.ranks - 1 - rank) * cut.local() / 2);
  return positions;
}

// Do the blocks have the pairs of the mask, counted position by position?
TEST(ContextBlocks, AreThoseOfTheMaskCountedPositionByPosition) {
  for (const ContextSplit split : {ContextSplit::Zigzag, ContextSplit::Contiguous}) {
    const SequenceCut cut{.sequence = 48, .ranks = 4, .split = split};
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const auto queries = positions_of(cut, rank);
      std::int64_t all = 0;
      for (std::int64_t source = 0; source < 4; ++source) {
        const auto block = ring_block(cut, {.rank = rank, .source = source});
        const std::int64_t wanted = counted_pairs(queries, positions_of(cut, source));
        EXPECT_EQ(block ? block->pairs : 0, wanted) << rank << " from " << source;
        all += wanted;
      }
      EXPECT_EQ(gathered_pairs(cut, rank), all);
    }
  }
}

// Are contiguous parts uneven in the published shares (oracle 67)? The shares are (2r+1)/c^2 of the
// square's causal half, with the diagonal counted by half.
TEST(ContextBlocks, ContiguousPartsAreUneven) {
  const SequenceCut cut{.sequence = 8192, .ranks = 4, .split = ContextSplit::Contiguous};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    const std::int64_t without_diagonal = 2 * ring_pairs(cut, rank) - cut.local();
    EXPECT_EQ(16 * without_diagonal, (2 * rank + 1) * 8192 * 8192);
  }
}

TrainingPlan context_plan(const Parallelism& parallelism, std::int64_t microbatches = 2) {
  TrainingPlan plan = plan_of(small_llama(4), parallelism, microbatches);
  plan.training.micro_batch_size = 2;
  plan.training.global_batch_size *= 2;
  return plan;
}

const std::vector<Parallelism>& grids() {
  constexpr auto kGather = ContextExchange::AllGather;
  constexpr auto kTrade = ContextExchange::AllToAll;
  constexpr auto kBoth = ContextExchange::Hierarchical;
  constexpr auto kStraight = ContextSplit::Contiguous;
  static const std::vector<Parallelism> all = {
      {.context = 2},
      {.context = 4},
      {.context = 4, .context_split = kStraight},
      {.tensor = 2, .sequence_parallel = true, .pipeline = 2, .data = 2, .context = 4},
      {.context = 4, .context_exchange = kGather},
      {.tensor = 2, .context = 4, .context_exchange = kGather, .context_split = kStraight},
      {.context = 4, .context_exchange = kTrade},
      {.data = 2, .context = 16, .context_exchange = kTrade, .zero_stage = 1},
      {.context = 8, .context_exchange = kBoth, .context_all_to_all = 4},
      {.tensor = 2,
       .pipeline = 2,
       .context = 4,
       .context_exchange = kBoth,
       .context_all_to_all = 2}};
  return all;
}

// Do all ranks together do the model's work? The FLOPs of all ranks add up to those of the model
// for the global batch, computed from the shape; a repeated forward repeats the core too.
TEST(ContextParallel, AllRanksDoTheModelsWork) {
  for (const Parallelism& p : grids()) {
    TrainingPlan plan = context_plan(p);
    const auto sequences = static_cast<double>(plan.training.global_batch_size);
    const double tokens = sequences * 128.0;
    const double weights = 256.0 * (256 + 2 * 128) + 256.0 * 256 + 3 * 256.0 * 512;
    const double linear = 4.0 * 2.0 * tokens * weights;
    const double core = 4.0 * 4.0 * sequences * (128.0 * 129.0 / 2.0) * 256.0;
    const double head = 2.0 * tokens * 256.0 * 2048.0;
    const double once = 3.0 * (linear + head) + 3.5 * core;
    EXPECT_NEAR(executed_flops(lower(plan)).value(), once, 1e-12 * once);
    plan.training.recompute = Recompute::Full;
    const double twice = 4.0 * linear + 3.0 * head + 4.5 * core;
    EXPECT_NEAR(executed_flops(lower(plan)).value(), twice, 1e-12 * twice);
  }
}

// The bytes that a rank of the first program sends over groups of the kind, by the name of the
// operation, for one layer and microbatch.
std::map<std::string, std::int64_t> sent_by_name(const Workload& workload, StepPart part) {
  std::map<std::string, std::int64_t> bytes;
  const Rank& rank = workload.ranks.front();
  for_each_operation(workload, workload.programs[rank.program], [&](const OperationView& view) {
    if (view.op.kind == OpKind::Compute || view.op.kind == OpKind::Recv) return;
    if (view.op.layer != 0 || view.op.microbatch != 0 || view.op.part != part) return;
    const Group& group = workload.groups[rank.slots[view.op.slot].group];
    if (group.kind != GroupKind::Context) return;
    const Call& call = workload.calls[view.op.payload];
    const auto n = static_cast<std::int64_t>(group.members.size());
    const bool whole = op_of(call) == CollectiveOp::SendRecv;
    bytes[std::string(view.name)] += whole ? bytes_of(call) : bytes_of(call) / n * (n - 1);
  });
  return bytes;
}

std::int64_t sum_of(const std::map<std::string, std::int64_t>& bytes) {
  std::int64_t sum = 0;
  for (const auto& [name, part] : bytes) sum += part;
  return sum;
}

// A model with q = 8192 and kappa = 1024, s = 32768.
TrainingPlan long_plan(const Parallelism& parallelism) {
  TrainingPlan plan;
  plan.architecture = load_architecture("llama3-70b");
  plan.architecture.layers = 1;
  plan.parallelism = parallelism;
  plan.training.sequence_length = 32768;
  plan.training.global_batch_size = parallelism.data;
  return plan;
}

// Does one ring step send the local keys and values (oracle 68)?
TEST(ContextTraffic, OneRingStepIsTheLocalKeysAndValues) {
  const Workload ring = lower(long_plan({.context = 4}));
  const auto forward = sent_by_name(ring, StepPart::Forward);
  EXPECT_EQ(forward, (std::map<std::string, std::int64_t>{{"send_keys_values", 100'663'296}}));
  EXPECT_EQ(sum_of(sent_by_name(ring, StepPart::Backward)), 2 * 100'663'296)
      << "keys and values but for the last step, their gradients but for the first";
  std::set<std::int64_t> sizes;
  for (const Call& call : ring.calls) {
    if (op_of(call) == CollectiveOp::SendRecv) sizes.insert(bytes_of(call));
  }
  EXPECT_EQ(sizes, (std::set<std::int64_t>{33'554'432, 67'108'864}));
  const Workload split = lower(long_plan({.tensor = 8, .context = 4}));
  EXPECT_EQ(sum_of(sent_by_name(split, StepPart::Forward)), 100'663'296 / 8);
}

// Do all_to_all and all_gather send the expected bytes?
TEST(ContextTraffic, TradingHeadsAndGathering) {
  const Workload trade =
      lower(long_plan({.context = 8, .context_exchange = ContextExchange::AllToAll}));
  EXPECT_EQ(sum_of(sent_by_name(trade, StepPart::Forward)), 132'120'576);
  EXPECT_EQ(sum_of(sent_by_name(trade, StepPart::Backward)), 132'120'576);
  const Workload gather =
      lower(long_plan({.context = 4, .context_exchange = ContextExchange::AllGather}));
  EXPECT_EQ(sum_of(sent_by_name(gather, StepPart::Forward)), 100'663'296) << "as the ring's";
  EXPECT_EQ(sum_of(sent_by_name(gather, StepPart::Backward)), 2 * 100'663'296)
      << "gathered again, and the gradients scattered";
}

// Are key-value heads copied if there are more ranks than heads? With 16 ranks and 8 key-value
// heads each one is copied, so K and V are as wide as 16 heads.
TEST(ContextTraffic, KeyValueHeadsAreCopiedWhereRanksAreMore) {
  const Workload trade =
      lower(long_plan({.context = 16, .context_exchange = ContextExchange::AllToAll}));
  const std::int64_t local = 32768 / 16;
  EXPECT_EQ(sum_of(sent_by_name(trade, StepPart::Forward)),
            15 * (local / 16) * 2 * (2 * 8192 + 2 * 2048));
  EXPECT_EQ(traded_kv_heads(8, 4), 2);
  EXPECT_EQ(traded_kv_heads(8, 16), 1);
}

// Are the copies of key-value heads stored? A rank stores one of 8 heads at all positions, which is
// as much as 16 heads at its own, and as much for their gradients.
TEST(ContextTraffic, CopiesOfKeyValueHeadsAreStored) {
  const auto memory = [](std::int64_t kv_heads) {
    TrainingPlan plan = long_plan({.context = 16, .context_exchange = ContextExchange::AllToAll});
    plan.architecture.kv_heads = kv_heads;
    return layer_memory(memory_options(plan), layer_kind(plan.architecture, 0));
  };
  EXPECT_EQ(memory(8).kept, memory(16).kept);
  EXPECT_EQ(memory(8).workspace, memory(16).workspace);
  EXPECT_EQ(memory(32).kept - memory(16).kept, 2 * 2048 * 2 * 16 * 128);
}

// Is the hierarchical exchange an all_to_all and a ring? The all_to_all is within two ranks, the
// ring has two pairs, and carries half of the heads of twice the positions.
TEST(ContextTraffic, HierarchicalIsATradeAndARing) {
  const auto bytes =
      sent_by_name(lower(long_plan({.context = 4,
                                    .context_exchange = ContextExchange::Hierarchical,
                                    .context_all_to_all = 2})),
                   StepPart::Forward);
  const std::int64_t rows = 32768 / 4;
  EXPECT_EQ(bytes.at("query_all_to_all"), rows * 8192 * 2 / 2);
  EXPECT_EQ(bytes.at("key_all_to_all"), rows * 1024 * 2 / 2);
  EXPECT_EQ(bytes.at("send_keys_values"), (2 * rows) * 2 * (1024 / 2) * 2);
}

// The bytes that the memory-bound kernels of the first rank read and write in the layer, by name.
std::map<std::string, std::int64_t> moved_by_name(const Workload& workload, StepPart part) {
  std::map<std::string, std::int64_t> bytes;
  const Program& program = workload.programs[workload.ranks.front().program];
  for_each_operation(workload, program, [&](const OperationView& view) {
    if (view.op.kind != OpKind::Compute || view.op.layer != 0 || view.op.part != part) return;
    const auto* kernel = std::get_if<MemoryBound>(&workload.kernels[view.op.payload]);
    if (kernel != nullptr) bytes[std::string(view.name)] += kernel->bytes;
  });
  return bytes;
}

// Do the merges of a ring move the bytes of Transformer Engine's kernels? The first of two ranks, s
// = 32768: all 16384 queries against its own keys, then the later 8192 against the other's. q =
// 8192 of 64 heads, keys and values 2048.
TEST(ContextTraffic, JoinsOfARing) {
  const Workload ring = lower(long_plan({.context = 2}));
  const std::int64_t output = 8192 * 2;  // bytes of a position
  const std::int64_t log_sum = 64 * 4;
  const std::int64_t keys = 2048 * 2;
  const auto forward = moved_by_name(ring, StepPart::Forward);
  EXPECT_EQ(forward.at("keys_values_pack"), 2 * 16384 * keys);
  EXPECT_EQ(forward.at("attention_merge"),
            16384 * (2 * output + 4 * log_sum) + 8192 * (3 * output + 5 * log_sum));
  // In the backward the own keys are the last, and the later queries come first.
  const auto backward = moved_by_name(ring, StepPart::Backward);
  EXPECT_EQ(backward.at("keys_values_pack"), 2 * 16384 * keys);
  EXPECT_EQ(backward.at("query_gradient_add"), 8192 * 2 * output + 16384 * 3 * output);
  EXPECT_EQ(backward.at("key_value_gradient_add"), 16384 * 2 * keys + 16384 * 3 * keys);
}

// Are only the blocks of a ring marked as such? Cores are parts of a ring only if keys are passed
// around in blocks.
TEST(ContextParallel, BlocksOfARingAreNamedSo) {
  const auto of_ring = [](ContextExchange exchange) {
    Parallelism layout{.context = 4, .context_exchange = exchange};
    std::size_t blocks = 0;
    for (const Kernel& kernel : lower(context_plan(layout)).kernels)
      if (const auto* core = std::get_if<Attention>(&kernel)) blocks += core->of_ring ? 1 : 0;
    return blocks;
  };
  EXPECT_GT(of_ring(ContextExchange::Ring), 0U);
  EXPECT_EQ(of_ring(ContextExchange::AllGather), 0U);
  EXPECT_EQ(of_ring(ContextExchange::AllToAll), 0U);
}

// Does a recipe for attention hold for ranks that share a sequence? All cores multiply in 8 bits,
// except where keys and values are gathered.
TEST(ContextParallel, TheRecipeOfAttentionHoldsUnlessKeysAreGathered) {
  for (const Parallelism& p : grids()) {
    TrainingPlan plan = context_plan(p);
    plan.recipe = load_recipe("fp8_attention");
    std::set<DataType> types;
    for (const Kernel& kernel : lower(plan).kernels)
      if (const auto* core = std::get_if<Attention>(&kernel)) types.insert(core->dtype);
    const bool gathered = p.context_exchange == ContextExchange::AllGather;
    EXPECT_EQ(types, std::set{gathered ? DataType::Bf16 : DataType::Fp8});
  }
}

// Is all memory freed (oracle 60), and does a rank keep a part of what a single rank would keep? If
// heads are exchanged, the attention output before the exchange is kept in addition, and copies of
// key-value heads where ranks are more.
TEST(ContextParallel, AllMemoryComesBack) {
  for (const Parallelism& p : grids()) {
    const TrainingPlan plan = context_plan(p);
    const Step step = replay(lower(plan), free_model(), [](const Kernel&) { return 1e-3; });
    for (std::size_t index = 0; index < step.partition.ranks.size(); ++index) {
      const Program& program = step.workload.programs[step.partition.ranks[index].program];
      for (const std::int64_t bytes : unreturned_bytes(step.workload, program)) EXPECT_EQ(bytes, 0);
    }
    TrainingPlan alone = plan;
    alone.parallelism.context = 1;
    const std::int64_t traders = context_shape(p).heads;
    const std::int64_t kv_heads = kv_heads_per_rank(plan.architecture, p.tensor);
    const std::int64_t output = traders > 1 ? plan.architecture.output_width() / p.tensor : 0;
    const std::int64_t copies =
        2 * plan.architecture.head_dim * (std::max(kv_heads, traders) - kv_heads);
    const std::int64_t more =
        plan.training.micro_batch_size * plan.training.sequence_length * (output + copies) * 2;
    EXPECT_EQ(layer_memory(memory_options(plan), dense_layer(plan.architecture)).kept * p.context,
              layer_memory(memory_options(alone), dense_layer(alone.architecture)).kept + more);
  }
}

double seconds_of(const Kernel& kernel) { return flops(kernel).value() * 1e-12; }

double linked_makespan(const TrainingPlan& plan, double bytes_per_s, bool fold = true) {
  const CallModel communication([bytes_per_s](const Call& call) {
    return static_cast<double>(bytes_of(call)) / bytes_per_s;
  });
  return replay(lower(plan), communication, seconds_of, {.engine = "ideal", .fold = fold})
      .timeline.makespan_s;
}

// Only the messages of the ring and the GEMMs take time.
double ring_makespan(const TrainingPlan& plan, double bytes_per_s) {
  const CallModel communication([bytes_per_s](const Call& call) {
    return op_of(call) == CollectiveOp::SendRecv ? static_cast<double>(bytes_of(call)) / bytes_per_s
                                                 : 0.0;
  });
  return replay(lower(plan), communication, seconds_of).timeline.makespan_s;
}

// Is the ring hidden behind the attention core? The message of a step is sent while the step is
// computed. Nothing is exposed until the message takes longer than the step; then the excess of
// every step is exposed (three steps forward; in the backward three with twice the bytes and one
// with the same bytes, against 2.5 times the work).
TEST(ContextParallel, TheRingIsHiddenBehindTheCore) {
  const TrainingPlan plan = long_plan({.context = 4});
  TrainingPlan alone = plan;
  alone.parallelism.context = 1;
  const double hidden = ring_makespan(plan, 1e15);
  EXPECT_NEAR(hidden, ring_makespan(alone, 1e15) / 4.0, 1e-6 * hidden);
  const double step_s = 4.0 * 64 * 128 * (8192.0 * 4096.0) * 1e-12;
  const double just_hidden = 33'554'432.0 / step_s;
  EXPECT_NEAR(ring_makespan(plan, 2.0 * just_hidden), hidden, 1e-9 * hidden);
  // Forward: each of three messages takes two steps. The first one overlaps the diagonal, which is
  // longer than a step by L/2 of L*L/2 pairs. Backward: messages of 4 steps overlap 2.5 of work,
  // except the first and the last, of 2.
  const double diagonal = step_s * 8193.0 / 8192.0;
  const double wanted = hidden + (2.0 * step_s - diagonal) + 2.0 * step_s + 2.0 * 1.5 * step_s;
  EXPECT_NEAR(ring_makespan(plan, 0.5 * just_hidden), wanted, 1e-6 * wanted);
}

// Do contiguous parts take as long as the last rank (oracle 67)? The last of four ranks has
// (2*3+1)/16 of the work, instead of 1/4.
TEST(ContextParallel, ContiguousPartsTakeAsLongAsTheLast) {
  TrainingPlan even = long_plan({.context = 4});
  const auto core_only = [](const Kernel& kernel) {
    return std::holds_alternative<Attention>(kernel) ? seconds_of(kernel) : 0.0;
  };
  const auto time = [&](const TrainingPlan& plan) {
    return replay(lower(plan), free_model(), core_only).timeline.makespan_s;
  };
  TrainingPlan uneven = even;
  uneven.parallelism.context_exchange = ContextExchange::AllGather;
  uneven.parallelism.context_split = ContextSplit::Contiguous;
  EXPECT_NEAR(time(uneven) / time(even), (7.0 / 16.0) / (1.0 / 4.0), 1e-3);
}

// Do folded and unfolded runs agree?
TEST(ContextParallel, FoldedIsUnfolded) {
  for (const Parallelism& p : grids()) {
    const TrainingPlan plan = context_plan(p);
    const double folded = linked_makespan(plan, 1e9);
    EXPECT_NEAR(linked_makespan(plan, 1e9, false), folded, 1e-9 * folded);
  }
}

// Is there one program for each position on the ring, and a single one if heads are exchanged?
TEST(ContextParallel, ProgramsOfTheRing) {
  const Workload ring = lower(context_plan({.pipeline = 2, .context = 4}));
  EXPECT_EQ(ring.programs.size(), 8U);
  EXPECT_EQ(ring.programs[5].name, "stage 1 ring 1");
  EXPECT_EQ(ring.programs[5].stage, 1U);
  EXPECT_EQ(ring.ranks[5].program, 5U);
  EXPECT_EQ(ring.ranks[5].label, "dp0 pp1 cp1 tp0");
  const Workload trade = lower(
      context_plan({.pipeline = 2, .context = 4, .context_exchange = ContextExchange::AllToAll}));
  EXPECT_EQ(trade.programs.size(), 2U);
  const Workload gather = lower(
      context_plan({.pipeline = 2, .context = 4, .context_exchange = ContextExchange::AllGather}));
  EXPECT_EQ(gather.programs.size(), 2U) << "a zigzag's pairs are the same for all";
}

// Are gradients reduced over replicas and context ranks? All ranks with different tokens
// contribute.
TEST(ContextParallel, GradientsAreReducedOverReplicasAndContext) {
  const Workload workload = lower(context_plan({.data = 2, .context = 4}));
  bool found = false;
  for (const Group& group : workload.groups) {
    if (group.kind == GroupKind::Data) {
      EXPECT_EQ(group.members.size(), 8U);
      found = true;
    }
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace trainyard
