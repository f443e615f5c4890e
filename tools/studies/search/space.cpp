#include "tools/studies/search/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/error.hpp"
#include "tools/studies/search/bounds.hpp"
#include "tools/studies/search/choices.hpp"
#include "tools/studies/search/legal.hpp"

namespace trainyard {

namespace {

// Axes of fields that the search does not know: each combination is a family of layouts. The
// cluster, the model and NCCL are the same for all, as the bounds suppose.
std::vector<Axis> foreign_axes(const std::vector<Axis>& over) {
  std::vector<Axis> axes;
  for (const Axis& axis : over) {
    const std::string& path = axis.paths.front();
    if (Choices::sets(path)) continue;
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

// One family: everything but the sizes is as in `base`.
class Family {
 public:
  // `further`: those of the variant's changes that tell this family from the others.
  Family(const Scenario& base, Variant variant, const std::vector<Axis>& over,
         std::vector<Override> further = {})
      : base_(base),
        variant_(std::move(variant)),
        choices_(base.plan, base.cluster.node.gpus, over),
        further_(std::move(further)) {}

  void enumerate(Layouts& layouts) const {
    const auto gpus = static_cast<std::int64_t>(gpu_count(base_.cluster));
    for (const std::int64_t tensor : choices_.tensor()) {
      for (const std::int64_t context : choices_.context()) {
        for (const std::int64_t pipeline : choices_.pipeline()) {
          const std::int64_t replica = tensor * pipeline * context;
          if (replica <= 0 || gpus % replica != 0) continue;
          TrainingPlan plan = base_.plan;
          plan.parallelism.tensor = tensor;
          plan.parallelism.sequence_parallel = tensor > 1;
          plan.parallelism.context = context;
          plan.parallelism.pipeline = pipeline;
          plan.parallelism.data = gpus / replica;
          with_schedules(plan, layouts);
        }
      }
    }
  }

 private:
  void with_schedules(TrainingPlan plan, Layouts& layouts) const {
    for (const ScheduleChoice& schedule : choices_.schedules(plan)) {
      plan.parallelism.schedule = schedule.name;
      plan.parallelism.interleave = schedule.chunks;
      for (const ExpertChoice& experts : choices_.experts(plan)) {
        plan.parallelism.expert = experts.groups;
        plan.parallelism.expert_tensor = experts.tensor;
        with_batches(plan, layouts);
      }
    }
  }

  void with_batches(TrainingPlan plan, Layouts& layouts) const {
    const Choices::Sizes zero = choices_.zero_stages(plan);
    for (const std::int64_t size : choices_.microbatches()) {
      for (const RecomputeChoice& recompute : choices_.recomputations()) {
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

  [[nodiscard]] Variant changed(const TrainingPlan& plan, const char* recompute) const {
    const Parallelism& p = plan.parallelism;
    Variant variant = variant_;
    const auto set = [&](const char* path, std::string value) {
      variant.changes.push_back({.path = path, .value = std::move(value)});
    };
    set("parallelism.tensor", std::to_string(p.tensor));
    set("parallelism.sequence_parallel", p.sequence_parallel ? "true" : "false");
    if (p.context != base_.plan.parallelism.context)
      set("parallelism.context", std::to_string(p.context));
    set("parallelism.pipeline", std::to_string(p.pipeline));
    set("parallelism.interleave", std::to_string(p.interleave));
    set("parallelism.schedule", p.schedule);
    if (plan.architecture.has_experts()) {
      set("parallelism.expert", std::to_string(p.expert));
      set("parallelism.expert_tensor", std::to_string(p.expert_tensor));
    }
    set("parallelism.data", std::to_string(p.data));
    set("parallelism.zero_stage", std::to_string(p.zero_stage));
    set("training.micro_batch_size", std::to_string(plan.training.micro_batch_size));
    set("training.recompute", recompute);
    return variant;
  }

  const Scenario& base_;
  Variant variant_;
  Choices choices_;
  std::vector<Override> further_;
};

// Reads the scenario with a family's own fields. Alone they may be no scenario (a size that needs
// another one), so sizes of the search are tried with them until it is one: first those that the
// family before needed.
class FamilyReader {
 public:
  FamilyReader(const SearchSpace& space, const Scenario& scenario)
      : space_(space), scenario_(scenario) {}

  // Throws what the reader says of the last sizes tried where there is no scenario.
  Scenario read(const std::vector<Override>& further) {
    std::optional<InputError> refusal;
    try {
      return load(space_.scenario, further);
    } catch (const InputError& error) {
      refusal = error;
    }
    if (!tries_) find_tries();
    for (std::size_t i = 0; i < tries_->size(); ++i) {
      const std::size_t number = (last_ + i) % tries_->size();
      try {
        Scenario base = load((*tries_)[number], further);
        base.plan.parallelism.context = scenario_.plan.parallelism.context;
        last_ = number;
        return base;
      } catch (const InputError& error) {
        refusal = error;
      }
    }
    throw InputError(*refusal);
  }

 private:
  static Scenario load(const Variant& variant, const std::vector<Override>& further) {
    std::vector<Override> changes = variant.changes;
    changes.insert(changes.end(), further.begin(), further.end());
    return load_scenario(variant.file, changes);
  }

  void find_tries() {
    constexpr std::size_t kTries = 64;
    Layouts all;
    Family(scenario_, space_.scenario, space_.over).enumerate(all);
    const std::size_t step = std::max<std::size_t>(1, all.legal.size() / kTries);
    tries_.emplace();
    for (std::size_t i = 0; i < all.legal.size(); i += step)
      tries_->push_back(all.legal[i].variant);
  }

  const SearchSpace& space_;
  const Scenario& scenario_;
  std::optional<std::vector<Variant>> tries_;
  std::size_t last_ = 0;  // of the tries, the one that made the last scenario
};

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

void refuse_none_legal(const SearchSpace& space, const Layouts& layouts,
                       const std::optional<InputError>& refusal) {
  if (layouts.looked_at == 0 && refusal) throw InputError(*refusal);
  if (!layouts.legal.empty()) return;
  throw InputError(
      Problem{.file = space.scenario.file,
              .pointer = {},
              .problem = fmt::format("none of {} combinations is a layout", layouts.looked_at),
              .hint = "give other values with --over"});
}

}  // namespace

Layouts enumerate(const SearchSpace& space, const Enumeration& enumeration) {
  const Scenario scenario = load_scenario(space.scenario.file, space.scenario.changes);
  refuse_split_by_hand(scenario);
  refuse_unbounded(scenario);
  const std::vector<Variant> combinations = grid("", foreign_axes(space.over));
  Layouts layouts{.legal = {}, .further = combinations.size()};
  FamilyReader reader(space, scenario);
  std::optional<InputError> refusal;  // of the last family that is none
  for (std::size_t i = 0; i < combinations.size(); ++i) {
    if (i > 0 && enumeration.end && enumeration.end()) {
      layouts.further_not_reached = combinations.size() - i;
      break;
    }
    Variant variant = space.scenario;
    variant.changes.insert(variant.changes.end(), combinations[i].changes.begin(),
                           combinations[i].changes.end());
    std::optional<Scenario> base;
    try {
      base = reader.read(combinations[i].changes);
    } catch (const InputError& error) {
      refusal = error;
    }
    if (base) Family(*base, variant, space.over, combinations[i].changes).enumerate(layouts);
    if (enumeration.progress)
      enumeration.progress(static_cast<double>(i + 1) / static_cast<double>(combinations.size()));
  }
  if (layouts.further_not_reached == 0) refuse_none_legal(space, layouts, refusal);
  return layouts;
}

}  // namespace trainyard
