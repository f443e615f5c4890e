#include "scenarios/search/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "models/schedules/schedule.hpp"
#include "scenarios/search/bounds.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t whole(const Override& change) {
  std::int64_t value = 0;
  const char* const end = change.value.data() + change.value.size();
  const auto read = std::from_chars(change.value.data(), end, value);
  if (read.ec != std::errc{} || read.ptr != end || value < 0) {
    throw InputError(
        Problem{.file = "--over",
                .pointer = {},
                .problem = fmt::format("{}={} is no whole number", change.path, change.value),
                .hint = "write for example --over parallelism.tensor=4,8"});
  }
  return value;
}

Sizes divisors(std::int64_t number) {
  Sizes all;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) all.push_back(divisor);
  return all;
}

Sizes powers_of_two(std::int64_t most) {
  Sizes all;
  for (std::int64_t power = 1; power <= most; power *= 2) all.push_back(power);
  return all;
}

// The values of a field that the user named, or nothing.
class Chosen {
 public:
  explicit Chosen(const std::vector<Axis>& over) {
    for (const Axis& axis : over) axes_.emplace(axis.paths.front(), &axis);
  }
  [[nodiscard]] std::optional<std::vector<std::string>> words(const std::string& path) const {
    const auto found = axes_.find(path);
    if (found == axes_.end()) return std::nullopt;
    std::vector<std::string> values;
    for (const auto& point : found->second->points) values.push_back(point.front().value);
    return values;
  }
  [[nodiscard]] std::optional<Sizes> sizes(const std::string& path) const {
    const auto found = axes_.find(path);
    if (found == axes_.end()) return std::nullopt;
    Sizes values;
    for (const auto& point : found->second->points) values.push_back(whole(point.front()));
    return values;
  }

 private:
  std::map<std::string, const Axis*> axes_;
};

constexpr std::array<const char*, 7> kOwnPaths = {
    "parallelism.tensor",   "parallelism.pipeline",   "parallelism.interleave",
    "parallelism.schedule", "parallelism.zero_stage", "training.micro_batch_size",
    "training.recompute"};

bool is_own(const std::string& path) {
  return std::find(kOwnPaths.begin(), kOwnPaths.end(), path) != kOwnPaths.end();
}

// Axes of fields that the search does not know: each combination is a family of layouts. The
// cluster, the model and NCCL are the same for all, as the bounds suppose.
std::vector<Axis> foreign_axes(const std::vector<Axis>& over) {
  std::vector<Axis> axes;
  for (const Axis& axis : over) {
    const std::string& path = axis.paths.front();
    if (is_own(path)) continue;
    const bool fits = path.starts_with("parallelism.") || path.starts_with("training.") ||
                      path.starts_with("collectives.");
    if (!fits || path.starts_with("collectives.nccl") || path == "parallelism.data") {
      throw InputError(Problem{.file = "--over",
                               .pointer = {},
                               .problem = fmt::format("{} is no part of a layout", path),
                               .hint = "search again with --set for each value, or use sweep"});
    }
    axes.push_back(axis);
  }
  return axes;
}

struct Words {
  Recompute value;
  const char* word;
};
constexpr std::array<Words, 3> kRecompute{
    {{Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}}};

std::vector<Words> recomputations(const Chosen& chosen, const Training& training) {
  std::vector<Words> all;
  const auto words = chosen.words("training.recompute");
  for (const Words& one : kRecompute) {
    const bool named = words && std::find(words->begin(), words->end(), one.word) != words->end();
    // Selective recomputation repeats the attention core, which a fused one does by itself.
    const bool usual =
        one.value != Recompute::Selective || training.attention == AttentionKind::Unfused;
    if (words ? named : usual) all.push_back(one);
  }
  return all;
}

// One family: everything but the sizes is as in `base`.
class Family {
 public:
  // `further`: those of the variant's changes that tell this family from the others.
  Family(const Scenario& base, Variant variant, const Chosen& chosen,
         std::vector<Override> further = {})
      : base_(base), variant_(std::move(variant)), chosen_(chosen), further_(std::move(further)) {}

  void enumerate(Layouts& layouts) const {
    const auto gpus = static_cast<std::int64_t>(gpu_count(base_.cluster));
    const auto per_node = static_cast<std::int64_t>(base_.cluster.node.gpus);
    for (const std::int64_t tensor :
         chosen_.sizes("parallelism.tensor").value_or(powers_of_two(per_node))) {
      for (const std::int64_t pipeline : chosen_.sizes("parallelism.pipeline").value_or(stages())) {
        const std::int64_t replica = tensor * pipeline * base_.plan.parallelism.context;
        if (replica <= 0 || gpus % replica != 0) continue;
        TrainingPlan plan = base_.plan;
        plan.parallelism.tensor = tensor;
        plan.parallelism.sequence_parallel = tensor > 1;
        plan.parallelism.pipeline = pipeline;
        plan.parallelism.data = gpus / replica;
        with_schedules(plan, layouts);
      }
    }
  }

 private:
  // Splits that are uneven by intent (the embedding as a layer) are tried as well as even ones.
  [[nodiscard]] Sizes stages() const {
    const Parallelism& p = base_.plan.parallelism;
    const std::int64_t ends = std::int64_t{p.embedding_in_split} + std::int64_t{p.loss_in_split};
    return divisors(base_.plan.architecture.layers + ends);
  }

  void with_schedules(TrainingPlan plan, Layouts& layouts) const {
    const auto named = chosen_.words("parallelism.schedule");
    const Parallelism& p = plan.parallelism;
    const std::int64_t ends = std::int64_t{p.embedding_in_split} + std::int64_t{p.loss_in_split};
    const std::int64_t deep = (plan.architecture.layers + ends) / p.pipeline;
    for (const std::int64_t chunks : chosen_.sizes("parallelism.interleave")
                                         .value_or(p.pipeline > 1 ? divisors(deep) : Sizes{1})) {
      plan.parallelism.interleave = chunks;
      const std::vector<std::string> usual{chunks > 1 ? "interleaved_1f1b" : "1f1b"};
      for (const std::string& schedule : named.value_or(usual)) {
        plan.parallelism.schedule = schedule;
        with_batches(plan, layouts);
      }
    }
  }

  // With a pipeline, gradients and weights that are sharded would be gathered for every microbatch.
  [[nodiscard]] static Sizes zero_stages(const TrainingPlan& plan) {
    if (plan.parallelism.data == 1) return {0};
    return plan.parallelism.pipeline == 1 ? Sizes{0, 1, 2, 3} : Sizes{0, 1};
  }

  void with_batches(TrainingPlan plan, Layouts& layouts) const {
    const Sizes micro = chosen_.sizes("training.micro_batch_size").value_or(powers_of_two(8));
    const Sizes zero = chosen_.sizes("parallelism.zero_stage").value_or(zero_stages(plan));
    for (const std::int64_t size : micro) {
      for (const Words& recompute : recomputations(chosen_, plan.training)) {
        for (const std::int64_t stage : zero) {
          plan.training.micro_batch_size = size;
          plan.training.recompute = recompute.value;
          plan.parallelism.zero_stage = stage;
          ++layouts.looked_at;
          if (is_legal(plan))
            layouts.legal.push_back({changed(plan, recompute.word), plan, further_});
        }
      }
    }
  }

  [[nodiscard]] static bool is_legal(const TrainingPlan& plan) {
    const Parallelism& p = plan.parallelism;
    const Training& training = plan.training;
    const Architecture& model = plan.architecture;
    if (model.heads % p.tensor != 0 || model.kv_heads % p.tensor != 0) return false;
    if (!model.has_experts() && model.ffn % p.tensor != 0) return false;
    if (training.micro_batch_size <= 0) return false;
    if (training.global_batch_size % (training.micro_batch_size * p.data) != 0) return false;
    if (p.sequence_parallel && training.sequence_length % p.tensor != 0) return false;
    const Schedule* schedule = find_schedule(p.schedule);
    if (schedule == nullptr) return false;
    if (schedule->refusal({.stages = p.pipeline,
                           .microbatches = plan.microbatches(),
                           .chunks = p.interleave,
                           .group_size = p.microbatch_group_size})) {
      return false;
    }
    try {
      (void)layer_split(plan);
    } catch (const InputError&) {
      return false;
    }
    return true;
  }

  [[nodiscard]] Variant changed(const TrainingPlan& plan, const char* recompute) const {
    const Parallelism& p = plan.parallelism;
    Variant variant = variant_;
    const auto set = [&](const char* path, std::string value) {
      variant.changes.push_back({.path = path, .value = std::move(value)});
    };
    set("parallelism.tensor", std::to_string(p.tensor));
    set("parallelism.sequence_parallel", p.sequence_parallel ? "true" : "false");
    set("parallelism.pipeline", std::to_string(p.pipeline));
    set("parallelism.interleave", std::to_string(p.interleave));
    set("parallelism.schedule", p.schedule);
    set("parallelism.data", std::to_string(p.data));
    set("parallelism.zero_stage", std::to_string(p.zero_stage));
    set("training.micro_batch_size", std::to_string(plan.training.micro_batch_size));
    set("training.recompute", recompute);
    return variant;
  }

  const Scenario& base_;
  Variant variant_;
  const Chosen& chosen_;
  std::vector<Override> further_;
};

// A family's own fields as the reader understands them. Alone they may be no scenario (a size that
// needs another one), so sizes of the search are tried with them until it is one. Throws what the
// reader says of the last one tried where none is.
Scenario family_base(const Variant& variant, const Scenario& scenario, const Chosen& chosen) {
  Layouts tries;
  std::optional<InputError> refusal;
  try {
    return load_scenario(variant.file, variant.changes);
  } catch (const InputError& error) {
    refusal = error;
    Family(scenario, variant, chosen).enumerate(tries);
  }
  constexpr std::size_t kTries = 64;
  const std::size_t step = std::max<std::size_t>(1, tries.legal.size() / kTries);
  for (std::size_t i = 0; i < tries.legal.size(); i += step) {
    try {
      return load_scenario(variant.file, tries.legal[i].variant.changes);
    } catch (const InputError& error) {
      refusal = error;
    }
  }
  throw InputError(*refusal);
}

// Every other size would make it another split.
void refuse_split_by_hand(const Scenario& scenario) {
  if (scenario.plan.parallelism.operator_devices.empty()) return;
  throw InputError(
      Problem{.file = scenario.file,
              .pointer = "/parallelism/operator_devices",
              .problem = "puts the operators on devices by hand, which leaves a search no layout "
                         "to choose",
              .hint = "take it out to search, `--set parallelism.operator_devices=null`, or "
                      "compare splits with `trainyard compare`"});
}

void refuse_unbounded(const Scenario& scenario) {
  const std::optional<std::string_view> pointer = unbounded_part(scenario);
  if (!pointer) return;
  throw InputError(
      Problem{.file = scenario.file,
              .pointer = std::string(*pointer),
              .problem = "has no lower bound that a search could cut layouts by",
              .hint = "leave it out here, and compare the best layouts with it by `trainyard "
                      "sweep`"});
}

}  // namespace

Layouts enumerate(const SearchSpace& space) {
  const Scenario scenario = load_scenario(space.scenario.file, space.scenario.changes);
  refuse_split_by_hand(scenario);
  refuse_unbounded(scenario);
  const Chosen chosen(space.over);
  const std::vector<Axis> foreign = foreign_axes(space.over);
  Layouts layouts;
  std::optional<InputError> refusal;  // of the last family that is none
  for (const Variant& combination : grid("", foreign)) {
    Variant variant = space.scenario;
    variant.changes.insert(variant.changes.end(), combination.changes.begin(),
                           combination.changes.end());
    std::optional<Scenario> base;
    try {
      base = family_base(variant, scenario, chosen);
    } catch (const InputError& error) {
      refusal = error;
    }
    if (base) Family(*base, variant, chosen, combination.changes).enumerate(layouts);
  }
  if (layouts.looked_at == 0 && refusal) throw InputError(*refusal);
  if (layouts.legal.empty()) {
    throw InputError(
        Problem{.file = space.scenario.file,
                .pointer = {},
                .problem = fmt::format("none of {} combinations is a layout", layouts.looked_at),
                .hint = "give other values with --over"});
  }
  return layouts;
}

}  // namespace trainyard
