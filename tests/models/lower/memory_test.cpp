// Memory of lowered steps on the simulated clock: peaks are the schedule's multiples of a
// microbatch's activations plus the resident memory, to the byte, and all of it is freed (oracles
// 54, 59, 60).
#include "sim/timeline/memory.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "models/layers/layer_memory.hpp"
#include "models/lower/options.hpp"
#include "models/pipeline_shape.hpp"
#include "models/schedules/schedule.hpp"
#include "step.hpp"
#include "tests/models/architecture/kinds.hpp"

namespace trainyard {
namespace {

using namespace test;

constexpr double kGib = 1073741824.0;

// Every kernel takes some time, so that no two effects occur at the same instant.
Step even_step(const TrainingPlan& plan) {
  return replay(lower(plan), free_model(), [](const Kernel&) { return 1e-3; });
}

std::vector<MemoryPeak> peaks_by_stage(const Step& step) {
  std::vector<MemoryPeak> peaks(step.workload.programs.size());
  for (std::size_t rank = 0; rank < step.partition.ranks.size(); ++rank) {
    peaks[step.partition.ranks[rank].program] =
        memory_peak(step.workload, step.partition, step.timeline, rank);
  }
  return peaks;
}

std::int64_t static_bytes(const Step& step, std::size_t stage) {
  const auto resident = resident_bytes(step.workload, step.workload.programs[stage]);
  return std::accumulate(resident.begin(), resident.end(), std::int64_t{0});
}

std::int64_t of(const MemoryPeak& peak, Category category) {
  return peak.by_category[static_cast<std::size_t>(category)];
}

struct Parts {
  LayerMemory layer;
  std::int64_t embedding = 0;
  std::int64_t head = 0;  // until the loss's backward has freed its fp32 logits
  std::int64_t gemm = 0;  // then, with its input's gradient, and the gathered input
};
Parts parts_of(const TrainingPlan& plan) {
  const ActivationQuery query = memory_options(plan).query;
  const HeadActivations head = head_activations(plan.architecture, query, plan.vocab());
  const std::int64_t input = 2 * query.micro_batch * query.sequence_length *
                             plan.architecture.hidden * (query.sequence_parallel ? 2 : 1);
  return {.layer = layer_memory(memory_options(plan), dense_layer(plan.architecture)),
          .embedding = embedding_activations(plan.architecture, query),
          .head = head.total(),
          .gemm = head.total() - head.logits_fp32 + input};
}

std::vector<TrainingPlan> plans(const Parallelism& parallelism, std::int64_t layers,
                                std::int64_t microbatches) {
  std::vector<TrainingPlan> result;
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    for (const AttentionKind attention : {AttentionKind::Flash, AttentionKind::Unfused}) {
      for (const Architecture& model : {small_gpt(layers), small_llama(layers)}) {
        TrainingPlan plan = plan_of(model, parallelism, microbatches);
        plan.training.recompute = recompute;
        plan.training.attention = attention;
        result.push_back(plan);
      }
    }
  }
  return result;
}

// Is the peak of plain 1F1B the multiple of the schedule to the byte (oracle 59)? The stage holds
// min(m, p - r) microbatches of its layers; the first stage adds the embedding's share of each, the
// last one the head's of its single one, and recomputation adds the working set of one layer.
TEST(Memory, Plain1F1BIsTheMultipleToTheByte) {
  for (const std::int64_t m : {2, 4, 7}) {
    for (const Parallelism& parallelism :
         {Parallelism{.pipeline = 4}, Parallelism{.tensor = 2, .pipeline = 4, .data = 2},
          Parallelism{.tensor = 4, .sequence_parallel = true, .pipeline = 4, .zero_stage = 1}}) {
      for (const TrainingPlan& plan : plans(parallelism, 8, m)) {
        const Step step = even_step(plan);
        const Parts parts = parts_of(plan);
        const auto peaks = peaks_by_stage(step);
        for (std::int64_t stage = 0; stage < 4; ++stage) {
          const std::int64_t held = std::min(m, 4 - stage);
          const std::int64_t backward = parts.layer.working + parts.layer.workspace;
          std::int64_t wanted = held * 2 * parts.layer.kept + backward;
          if (stage == 0) wanted += held * parts.embedding;
          if (stage == 3) wanted += std::max({parts.head, parts.gemm, backward}) - backward;
          const auto index = static_cast<std::size_t>(stage);
          EXPECT_EQ(peaks[index].bytes, static_bytes(step, index) + wanted) << stage;
        }
      }
    }
  }
}

// The peak of any schedule: its list, played with bytes instead of seconds.
std::int64_t peak_of_list(const TrainingPlan& plan, std::int64_t stage) {
  const Parallelism& p = plan.parallelism;
  const Parts parts = parts_of(plan);
  const auto split = layer_split(plan);
  const PipelineShape shape{
      .stages = p.pipeline, .microbatches = plan.microbatches(), .chunks = p.interleave};
  std::int64_t held = 0;
  std::int64_t peak = 0;
  for (const ScheduleStep& step : find_schedule(p.schedule)->steps(shape, stage)) {
    const std::int64_t virtual_stage = step.chunk * p.pipeline + stage;
    const std::int64_t layers = split[static_cast<std::size_t>(virtual_stage)];
    const bool first = virtual_stage == 0;
    const bool last = virtual_stage == p.pipeline * p.interleave - 1;
    const std::int64_t bytes = layers * parts.layer.kept + (first ? parts.embedding : 0);
    if (step.kind == StepKind::Forward) {
      held += bytes + (last ? parts.head : 0);
      peak = std::max(peak, held);
    } else {
      if (last) peak = std::max(peak, held - parts.head + parts.gemm);
      held -= last ? parts.head : 0;
      peak = std::max(peak, held + (layers > 0 ? parts.layer.working + parts.layer.workspace : 0));
      held -= bytes;
    }
  }
  EXPECT_EQ(held, 0);
  return peak;
}

// Does every schedule hold the memory of its list?
TEST(Memory, EveryScheduleHoldsWhatItsListSays) {
  const std::vector<PipelineCase> shapes = {{"gpipe", 4, 6},
                                            {"naive", 4, 3},
                                            {"1f1b", 4, 6},
                                            {"interleaved_1f1b", 4, 8, 2},
                                            {"interleaved_1f1b", 2, 6, 3}};
  for (const PipelineCase& shape : shapes) {
    const Parallelism parallelism{.tensor = 2,
                                  .sequence_parallel = true,
                                  .pipeline = shape.pipeline,
                                  .interleave = shape.chunks,
                                  .schedule = shape.schedule};
    for (const TrainingPlan& plan :
         plans(parallelism, 2 * shape.pipeline * shape.chunks, shape.microbatches)) {
      const Step step = even_step(plan);
      const auto peaks = peaks_by_stage(step);
      ASSERT_EQ(std::ssize(peaks), shape.pipeline);
      for (std::size_t stage = 0; stage < peaks.size(); ++stage) {
        EXPECT_EQ(peaks[stage].bytes,
                  static_bytes(step, stage) + peak_of_list(plan, static_cast<std::int64_t>(stage)))
            << shape.schedule << " stage " << stage;
      }
    }
  }
}

// Are the multiples of the interleaved schedule reproduced by the engine (oracle 33)? The middle
// ranks hold 2(p-r-1) + (v-1)p + 1 chunk activations.
TEST(Memory, InterleavedMultiples) {
  const TrainingPlan plan = pipeline_plan({"interleaved_1f1b", 4, 8, 2});
  const Parts parts = parts_of(plan);
  const auto peaks = peaks_by_stage(even_step(plan));
  EXPECT_EQ(of(peaks[1], Category::Activations), 9 * parts.layer.kept);
  EXPECT_EQ(of(peaks[2], Category::Activations), 7 * parts.layer.kept);
  // Eight of the first rank's eleven are chunk 0 after its last forward.
  EXPECT_EQ(of(peaks[0], Category::Activations), 11 * parts.layer.kept + 8 * parts.embedding);
}

// Is all memory freed (oracle 60)?
TEST(Memory, AllOfItComesBack) {
  for (const std::int64_t zero : {0, 1}) {
    const Parallelism parallelism{.tensor = 2, .pipeline = 2, .data = 2, .zero_stage = zero};
    for (const TrainingPlan& plan : plans(parallelism, 4, 4)) {
      const Step step = even_step(plan);
      for (const Program& program : step.workload.programs) {
        for (const std::int64_t bytes : unreturned_bytes(step.workload, program)) {
          EXPECT_EQ(bytes, 0);
        }
      }
      for (std::size_t rank = 0; rank < step.partition.ranks.size(); ++rank) {
        const auto curve = memory_curve(step.workload, step.partition, step.timeline, rank);
        EXPECT_EQ(curve.front().by_category, curve.back().by_category);
        for (const MemoryPoint& point : curve) {
          for (const std::int64_t bytes : point.by_category) EXPECT_GE(bytes, 0);
        }
      }
    }
  }
}

// Are the additional tensors of frameworks counted? They are Transformer Engine's placeholders for
// weight gradients (Llama-3 70B, t = 1), and the head's; a fused loss has no fp32 logits; PyTorch's
// own loss has three such tensors at the same time.
TEST(Memory, PlaceholdersAndLosses) {
  TrainingPlan plan;
  plan.architecture = load_architecture("llama3-70b");
  plan.training.sequence_length = 4096;
  const PlacedParts dense[] = {{.kind = dense_layer(plan.architecture)}};
  EXPECT_EQ(layer_placeholders(memory_options(plan), dense), 0);
  plan.framework.gradient_placeholders = true;
  EXPECT_EQ(layer_placeholders(memory_options(plan), dense),
            2 * 8192 * (10'240 + 8192 + 3 * 28'672));
  plan.training.gradient_precision = DataType::Bf16;  // nothing is added to wider gradients
  EXPECT_EQ(layer_placeholders(memory_options(plan), dense), 0);

  TrainingPlan small = plan_of(small_llama(2), {}, 1);
  const std::int64_t logits = 128 * 2048;
  const auto peak_of = [&](const FrameworkMemory& framework, bool fused) {
    small.framework = framework;
    small.training.fused_loss = fused;
    const Step step = even_step(small);
    std::int64_t most = 0;
    const auto curve = memory_curve(step.workload, step.partition, step.timeline, 0);
    const auto at = [](const MemoryPoint& point, Category category) {
      return point.by_category[static_cast<std::size_t>(category)];
    };
    for (const MemoryPoint& point : curve) {
      if (at(point, Category::Logits) > 0)
        most = std::max(most, at(point, Category::Logits) + at(point, Category::Workspace));
    }
    EXPECT_EQ(at(curve.back(), Category::Logits), 0) << "the step frees all logits";
    return most;
  };
  const std::int64_t gradient = 128 * 256 * 2;  // of the head's input
  EXPECT_EQ(peak_of({}, false), 6 * logits);
  EXPECT_EQ(peak_of({}, true), 2 * logits + gradient);
  EXPECT_EQ(
      peak_of({.gradient_placeholders = true}, true),
      2 * logits + gradient + 2 * 2048 * 256 +
          layer_placeholders(
              memory_options((small.framework = {.gradient_placeholders = true}, small)), dense));
  EXPECT_EQ(peak_of({.loss_copies = 2}, false), 10 * logits) << "one more fp32 tensor for a moment";
  EXPECT_EQ(peak_of({.loss_copies = 3}, false), 3 * 4 * logits);
}

// Is the memory of Llama-3 70B that of hand arithmetic (t = 8, p = 4, d = 8, 16 microbatches, ZeRO
// 1)? State has 6 + 12/8 = 7.5 bytes per parameter, stage r holds 4 - r microbatches of 20 layers,
// and the logits are 6sbV/t bytes.
TEST(Memory, Llama70BWorkedExample) {
  TrainingPlan plan;
  plan.architecture = load_architecture("llama3-70b");
  plan.parallelism = {
      .tensor = 8, .sequence_parallel = true, .pipeline = 4, .data = 8, .zero_stage = 1};
  plan.training.sequence_length = 8192;
  plan.training.global_batch_size = 16 * 8;
  const Parts parts = parts_of(plan);
  EXPECT_EQ(parts.layer.kept, 281'280'512);
  const std::vector<double> state = {15.8665, 14.9437, 14.9437, 15.8666};
  const std::vector<double> layers = {20.95703125, 15.7177734375, 10.478515625, 5.2392578125};
  const Step step = even_step(plan);
  const auto peaks = peaks_by_stage(step);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_NEAR(static_cast<double>(static_bytes(step, stage)) / kGib, state[stage], 5e-5);
    std::int64_t ends = 0;
    if (stage == 0) ends = 4 * parts.embedding;
    if (stage == 3) ends = 2 * (8192 * 8192 * 2 / 8);  // inputs of the final norm and the head
    const std::int64_t activations = of(peaks[stage], Category::Activations) - ends;
    EXPECT_DOUBLE_EQ(static_cast<double>(activations) / kGib, layers[stage]);
    const double logits = static_cast<double>(of(peaks[stage], Category::Logits)) / kGib;
    EXPECT_DOUBLE_EQ(logits, stage == 3 ? 0.73828125 : 0.0);
  }
}

// Korthikanti et al. 2205.05198, figures 1 and 7, the 175B model: activations of the first stage in
// GiB, of the layers alone. The run holds in addition what the figures leave out: ids and dropout
// masks of the embedding, and one layer while it recomputes.
struct Figure {
  bool sequence_parallel = false;
  Recompute recompute = Recompute::None;
  double gib = 0.0;
  double relative = 0.0;
};

// Are the activations of the 175B model those of Korthikanti et al.?
TEST(Memory, Korthikanti175B) {
  TrainingPlan plan;
  plan.architecture = load_architecture("gpt3-175b");
  plan.parallelism = {.tensor = 8, .pipeline = 8, .interleave = 3, .schedule = "interleaved_1f1b"};
  plan.training.sequence_length = 2048;
  plan.training.global_batch_size = 24;
  plan.training.precision = DataType::Fp16;
  plan.training.attention = AttentionKind::Unfused;
  const std::vector<Figure> figures = {{false, Recompute::None, 66.84375, 1.0},
                                       {true, Recompute::None, 41.4140625, 0.6196},
                                       {false, Recompute::Selective, 37.78125, 0.5652},
                                       {true, Recompute::Selective, 12.3515625, 0.1848},
                                       {false, Recompute::Full, 5.8125, 0.0870}};
  double everything = 0.0;
  for (const Figure& figure : figures) {
    plan.parallelism.sequence_parallel = figure.sequence_parallel;
    plan.training.recompute = figure.recompute;
    const Parts parts = parts_of(plan);
    const auto peaks = peaks_by_stage(even_step(plan));
    const double activations = static_cast<double>(of(peaks[0], Category::Activations)) / kGib;
    if (figure.relative == 1.0) everything = activations;
    const double other = static_cast<double>(parts.layer.working + 24 * parts.embedding) / kGib;
    EXPECT_GE(activations, figure.gib - 1e-9);
    EXPECT_LE(activations, figure.gib + other);
    EXPECT_NEAR(activations / everything, figure.relative, 0.015) << activations;
    EXPECT_DOUBLE_EQ(124.0 * static_cast<double>(parts.layer.kept) / kGib, figure.gib)
        << "31 chunks of 4 layers";
  }
}

}  // namespace
}  // namespace trainyard
