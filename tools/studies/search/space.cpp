#include "tools/studies/search/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/plan.hpp"
#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/report/result_json.hpp"
#include "tools/studies/sweep/grid.hpp"

namespace trainyard {

void set_price(double per_gpu_hour, Variant& scenario) {
  const std::optional<PowerSettings> power = load_variant(scenario).power;
  if (!power) return;
  if (!power->price_presets.empty())
    scenario.changes.push_back({.path = "power.price_preset", .value = "null"});
  if (power->capital_per_gpu)
    for (const char* bought : {"power.capital_per_gpu", "power.capital_years"})
      scenario.changes.push_back({.path = bought, .value = "null"});
  scenario.changes.push_back(
      {.path = "power.price_per_gpu_hour", .value = fmt::format("{}", per_gpu_hour)});
}

namespace {

using Json = nlohmann::ordered_json;

struct ScheduleChoice {
  std::string name;
  std::int64_t chunks = 1;
};

struct ExpertChoice {
  std::int64_t groups = 1;
  std::int64_t tensor = 0;  // as Parallelism::expert_tensor
};

struct RecomputeChoice {
  Recompute value = Recompute::None;
  const char* word = "none";
};

// The values that a search tries for each size of a layout: those of `--over` if there are any,
// else the usual ones. The usual values are these (all others are left to `--over`):
//
// - tensor: powers of two within a node
// - tensor_per_stage: the same number for all stages, and the scenario's own numbers
// - context: powers of two that leave each rank 8 192 tokens of a sequence, with fused attention
// - pipeline: every number of stages that divides the layers evenly; else those that divide them
//   together with the embedding and the loss, which then count as one layer each (126 layers of
//   Llama 3 405B over 16 stages)
// - schedule: 1F1B, interleaved at every depth, and each schedule that splits backwards or runs in
//   both directions. naive and gpipe are 1F1B with more waiting or more memory, zb_auto is zb_h1 if
//   no times are given, and a file is the user's own schedule
// - expert: every divisor of the experts, each expert on one rank or on the tensor group
// - zero_stage: 0 to 3; with a pipeline up to 1, because higher stages would gather the weights for
//   every microbatch
// - micro_batch_size: 1 to 8
// - recompute: none, full, and selective if the attention core is not fused; a fused core
//   recomputes by itself
class Choices {
 public:
  using Sizes = std::vector<std::int64_t>;

  // `plan` and `over` must outlive this object. Each axis has one path.
  Choices(const TrainingPlan& plan, std::int64_t gpus_per_node, const std::vector<Axis>& over);

  // Whether the search itself sets the field.
  [[nodiscard]] static bool sets(const std::string& path);

  // Each entry has the number of every stage; the empty one has the same number for all.
  [[nodiscard]] std::vector<Sizes> tensor_per_stage() const;
  [[nodiscard]] Sizes tensor() const;
  [[nodiscard]] Sizes context() const;
  [[nodiscard]] Sizes pipeline() const;
  // The choices below are for a plan with the sizes above. Some of them may not be a layout
  // (is_legal).
  [[nodiscard]] std::vector<ScheduleChoice> schedules(const TrainingPlan& plan) const;
  [[nodiscard]] std::vector<ExpertChoice> experts(const TrainingPlan& plan) const;
  [[nodiscard]] Sizes zero_stages(const TrainingPlan& plan) const;
  [[nodiscard]] Sizes microbatches() const;
  [[nodiscard]] std::vector<RecomputeChoice> recomputations() const;

 private:
  [[nodiscard]] std::optional<std::vector<std::string>> words(const std::string& path) const;
  [[nodiscard]] std::optional<Sizes> sizes(const std::string& path) const;

  const TrainingPlan& plan_;
  std::int64_t gpus_per_node_;
  std::map<std::string, const Axis*> over_;
};

// Least tokens of a sequence on one rank. With fewer tokens the kernels are too short to hide the
// communication between the ranks.
constexpr std::int64_t kLeastTokens = 8192;

constexpr std::array<const char*, 11> kOwnPaths = {
    "parallelism.tensor",        "parallelism.tensor_per_stage",
    "parallelism.context",       "parallelism.pipeline",
    "parallelism.interleave",    "parallelism.schedule",
    "parallelism.expert",        "parallelism.zero_stage",
    "parallelism.expert_tensor", "training.micro_batch_size",
    "training.recompute"};

constexpr std::array<RecomputeChoice, 3> kRecompute{
    {{Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}}};

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

// Reads "[8,4]", or "null" for the same number in all stages.
Choices::Sizes numbers_of_stages(const Override& change) {
  try {
    const Json value = parse_unchecked_json(change.value);
    if (value.is_null()) return {};
    auto numbers = value.get<Choices::Sizes>();
    if (!numbers.empty() && std::ranges::min(numbers) > 0) return numbers;
  } catch (const Json::exception&) {  // reported below
  }
  throw InputError(Problem{
      .file = "--over",
      .pointer = {},
      .problem =
          fmt::format("{}={} is no list of numbers of tensor ranks", change.path, change.value),
      .hint = "write for example --over 'parallelism.tensor_per_stage=null,[8,4],[4,8]'"});
}

Choices::Sizes divisors(std::int64_t number) {
  Choices::Sizes all;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) all.push_back(divisor);
  return all;
}

Choices::Sizes powers_of_two(std::int64_t most) {
  Choices::Sizes all;
  for (std::int64_t power = 1; power <= most; power *= 2) all.push_back(power);
  return all;
}

// The layers that a pipeline divides. The embedding and the loss count as layers in a split that is
// uneven on purpose.
std::int64_t split_layers(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  return plan.architecture.layers + std::int64_t{p.embedding_in_split} +
         std::int64_t{p.loss_in_split};
}

bool is_split_by_hand(const Parallelism& p) {
  return p.first_stage_layers || p.last_stage_layers || !p.layers_per_stage.empty();
}

// Divides the layers over the stages of the plan: as the scenario says where that is possible, else
// evenly, else with the embedding and the loss as layers. A split by hand is one for the stages of
// the scenario alone. A plan that none of these divide stays as the scenario says.
// Replicas of unequal batches are those of the scenario alone, too.
void choose_split(TrainingPlan& plan, std::int64_t stages_of_scenario) {
  plan.parallelism.replica_microbatches.clear();
  const std::int64_t stages = plan.parallelism.pipeline;
  const bool own = is_split_by_hand(plan.parallelism)
                       ? stages == stages_of_scenario && layers_split(plan)
                       : split_layers(plan) % stages == 0;
  if (own) return;
  TrainingPlan other = plan;
  Parallelism& p = other.parallelism;
  p.first_stage_layers.reset();
  p.last_stage_layers.reset();
  p.layers_per_stage.clear();
  for (const bool as_layers : {false, true}) {
    p.embedding_in_split = p.loss_in_split = as_layers;
    if (split_layers(other) % stages != 0) continue;
    plan = std::move(other);
    return;
  }
}

Choices::Choices(const TrainingPlan& plan, std::int64_t gpus_per_node,
                 const std::vector<Axis>& over)
    : plan_(plan), gpus_per_node_(gpus_per_node) {
  for (const Axis& axis : over) over_.emplace(axis.paths.front(), &axis);
}

bool Choices::sets(const std::string& path) {
  return std::ranges::find(kOwnPaths, path) != kOwnPaths.end();
}

std::optional<std::vector<std::string>> Choices::words(const std::string& path) const {
  const auto found = over_.find(path);
  if (found == over_.end()) return std::nullopt;
  std::vector<std::string> values;
  for (const auto& point : found->second->points) values.push_back(point.front().value);
  return values;
}

std::optional<Choices::Sizes> Choices::sizes(const std::string& path) const {
  const auto found = over_.find(path);
  if (found == over_.end()) return std::nullopt;
  Sizes values;
  for (const auto& point : found->second->points) values.push_back(whole(point.front()));
  return values;
}

std::vector<Choices::Sizes> Choices::tensor_per_stage() const {
  const auto named = over_.find("parallelism.tensor_per_stage");
  std::vector<Sizes> all;
  if (named != over_.end()) {
    for (const auto& point : named->second->points) all.push_back(numbers_of_stages(point.front()));
    return all;
  }
  all.emplace_back();
  const Sizes& own = plan_.parallelism.tensor_per_stage;
  // The values of parallelism.tensor are of equal stages only.
  const auto is_asked = [this](const char* path, std::int64_t value) {
    const std::optional<Sizes> values = sizes(path);
    return !values || std::ranges::find(*values, value) != values->end();
  };
  if (!own.empty() && is_asked("parallelism.context", 1) &&
      is_asked("parallelism.pipeline", static_cast<std::int64_t>(own.size())))
    all.push_back(own);
  return all;
}

Choices::Sizes Choices::tensor() const {
  return sizes("parallelism.tensor").value_or(powers_of_two(gpus_per_node_));
}

Choices::Sizes Choices::context() const {
  if (const auto named = sizes("parallelism.context")) return *named;
  if (plan_.training.attention != AttentionKind::Flash) return {1};
  Sizes all =
      powers_of_two(std::max<std::int64_t>(1, plan_.training.sequence_length / kLeastTokens));
  const std::int64_t own = plan_.parallelism.context;
  if (std::ranges::find(all, own) == all.end()) all.push_back(own);
  return all;
}

Choices::Sizes Choices::pipeline() const {
  if (const auto named = sizes("parallelism.pipeline")) return *named;
  std::set<std::int64_t> all;
  for (const std::int64_t layers :
       {split_layers(plan_), plan_.architecture.layers, plan_.architecture.layers + 2})
    for (const std::int64_t stages : divisors(layers)) all.insert(stages);
  if (is_split_by_hand(plan_.parallelism)) all.insert(plan_.parallelism.pipeline);
  return {all.begin(), all.end()};
}

std::vector<ScheduleChoice> Choices::schedules(const TrainingPlan& plan) const {
  const std::int64_t stages = plan.parallelism.pipeline;
  const auto named = words("parallelism.schedule");
  const auto named_chunks = sizes("parallelism.interleave");
  const Sizes even = stages > 1 ? divisors(split_layers(plan) / stages) : Sizes{1};
  std::vector<ScheduleChoice> all;
  const auto add = [&](const std::string& name, const Sizes& chunks) {
    for (const std::int64_t count : named_chunks.value_or(chunks)) all.push_back({name, count});
  };
  if (named) {
    for (const std::string& name : *named) {
      const Schedule* const schedule = find_schedule(name);
      const bool any = schedule == nullptr || schedule->takes_any_chunks();
      add(name, any ? even : Sizes{schedule->usual_chunks()});
    }
    return all;
  }
  for (const std::int64_t count : named_chunks.value_or(even))
    all.push_back({std::string(one_f_one_b(count).name()), count});
  if (stages == 1) return all;
  for (const Schedule* schedule : trainyard::schedules()) {
    if (schedule->is_one_f_one_b() || !schedule->is_searched()) continue;
    const std::int64_t chunks = schedule->usual_chunks();
    const bool wanted =
        !named_chunks || std::ranges::find(*named_chunks, chunks) != named_chunks->end();
    if (wanted) all.push_back({std::string(schedule->name()), chunks});
  }
  return all;
}

std::vector<ExpertChoice> Choices::experts(const TrainingPlan& plan) const {
  const Parallelism& p = plan.parallelism;
  const auto groups = sizes("parallelism.expert");
  const auto shares = sizes("parallelism.expert_tensor");
  const bool has = plan.architecture.has_experts();
  if (!has && !groups && !shares) return {{.groups = p.expert, .tensor = p.expert_tensor}};
  const Sizes usual = p.tensor > 1 ? Sizes{1, p.tensor} : Sizes{1};
  std::vector<ExpertChoice> all;
  for (const std::int64_t count : groups.value_or(divisors(plan.architecture.experts))) {
    for (const std::int64_t tensor : shares.value_or(usual))
      all.push_back({.groups = count, .tensor = tensor});
  }
  return all;
}

Choices::Sizes Choices::zero_stages(const TrainingPlan& plan) const {
  if (const auto named = sizes("parallelism.zero_stage")) return *named;
  if (plan.parallelism.replicas() == 1) return {0};
  return plan.parallelism.pipeline == 1 ? Sizes{0, 1, 2, 3} : Sizes{0, 1};
}

Choices::Sizes Choices::microbatches() const {
  return sizes("training.micro_batch_size").value_or(powers_of_two(8));
}

std::vector<RecomputeChoice> Choices::recomputations() const {
  std::vector<RecomputeChoice> all;
  const auto named = words("training.recompute");
  for (const RecomputeChoice& one : kRecompute) {
    const bool usual =
        one.value != Recompute::Selective || plan_.training.attention == AttentionKind::Unfused;
    const bool wanted = named ? std::ranges::find(*named, one.word) != named->end() : usual;
    if (wanted) all.push_back(one);
  }
  return all;
}

// The axes of fields that the search does not set itself. Each combination of their values is a
// family of layouts. The cluster, the model and NCCL are the same for all families, because the
// bounds assume it.
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

// One family of layouts: everything except the sizes is as in `base`.
class Family {
 public:
  // `further` are the changes of the variant that distinguish this family from the others.
  Family(const Scenario& base, Variant variant, const std::vector<Axis>& over,
         std::vector<Override> further = {})
      : base_(base),
        variant_(std::move(variant)),
        choices_(base.plan, base.cluster.node.gpus, over),
        more_(std::move(further)) {}

  void enumerate(Layouts& layouts) const {
    for (const Choices::Sizes& numbers : choices_.tensor_per_stage()) {
      if (numbers.empty())
        with_equal_stages(layouts);
      else
        with_stages(numbers, layouts);
    }
  }

 private:
  // Number of GPUs of one worker.
  [[nodiscard]] std::int64_t gpus() const {
    return static_cast<std::int64_t>(gpu_count(base_.cluster)) / base_.plan.workers();
  }

  void with_equal_stages(Layouts& layouts) const {
    for (const std::int64_t tensor : choices_.tensor()) {
      for (const std::int64_t context : choices_.context()) {
        for (const std::int64_t pipeline : choices_.pipeline()) {
          const std::int64_t replica = tensor * pipeline * context;
          if (replica <= 0 || gpus() % replica != 0) continue;
          TrainingPlan plan = base_.plan;
          plan.parallelism.tensor_per_stage.clear();
          plan.parallelism.tensor = tensor;
          plan.parallelism.sequence_parallel = tensor > 1;
          plan.parallelism.context = context;
          plan.parallelism.pipeline = pipeline;
          plan.parallelism.data = gpus() / replica;
          choose_split(plan, base_.plan.parallelism.pipeline);
          with_schedules(plan, layouts);
        }
      }
    }
  }

  // Stages with these numbers of tensor ranks.
  void with_stages(const Choices::Sizes& numbers, Layouts& layouts) const {
    TrainingPlan plan = base_.plan;
    Parallelism& p = plan.parallelism;
    p.tensor_per_stage = numbers;
    p.tensor = p.most_tensor();
    p.sequence_parallel = p.tensor > 1;
    p.context = 1;
    p.pipeline = static_cast<std::int64_t>(numbers.size());
    if (gpus() % p.ranks_of_replica() != 0) return;
    p.data = gpus() / p.ranks_of_replica();
    choose_split(plan, base_.plan.parallelism.pipeline);
    with_schedules(plan, layouts);
  }

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
          ++layouts.checked_layouts;
          if (is_legal(plan)) layouts.legal.push_back({changed(plan, recompute.word), plan, more_});
        }
      }
    }
  }

  // The changes to another split of the layers than that of the scenario.
  void set_split(const Parallelism& p, Variant& variant) const {
    const Parallelism& own = base_.plan.parallelism;
    const auto remove = [&](const char* field, bool is_there) {
      if (is_there && !is_split_by_hand(p))
        variant.changes.push_back({.path = fmt::format("parallelism.{}", field), .value = "null"});
    };
    remove("first_stage_layers", own.first_stage_layers.has_value());
    remove("last_stage_layers", own.last_stage_layers.has_value());
    remove("layers_per_stage", !own.layers_per_stage.empty());
    if (!own.replica_microbatches.empty())
      variant.changes.push_back({.path = "parallelism.replica_microbatches", .value = "null"});
    if (p.tensor_per_stage != own.tensor_per_stage)
      variant.changes.push_back(
          {.path = "parallelism.tensor_per_stage",
           .value = p.tensor_per_stage.empty() ? "null" : to_line(Json(p.tensor_per_stage))});
    const auto set = [&](const char* field, bool value, bool before) {
      if (value != before)
        variant.changes.push_back(
            {.path = fmt::format("parallelism.{}", field), .value = value ? "true" : "false"});
    };
    set("embedding_in_split", p.embedding_in_split, own.embedding_in_split);
    set("loss_in_split", p.loss_in_split, own.loss_in_split);
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
    set_split(p, variant);
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
  std::vector<Override> more_;
};

// Reads the scenario with the fields of a family. These fields alone may not be a legal scenario
// (for example a size that needs another one). Then the sizes of the search are tried with them
// until the scenario is legal, first those that the previous family needed.
class FamilyReader {
 public:
  FamilyReader(const SearchSpace& space, const Scenario& scenario)
      : space_(space), scenario_(scenario) {}

  // Throws the error of the last sizes tried if no scenario is legal.
  Scenario read(const std::vector<Override>& further) {
    std::optional<InputError> refusal;
    try {
      return load_variant(space_.scenario, further);
    } catch (const InputError& error) {
      refusal = error;
    }
    if (!tries_) find_tries();
    for (std::size_t i = 0; i < tries_->size(); ++i) {
      const std::size_t number = (last_ + i) % tries_->size();
      try {
        Scenario base = load_variant((*tries_)[number], further);
        keep_own(base.plan.parallelism, further);
        last_ = number;
        return base;
      } catch (const InputError& error) {
        refusal = error;
      }
    }
    throw InputError(*refusal);
  }

 private:
  // Family::changed() sets the context and the split only where they differ from those of the base.
  // The sizes that were tried are not part of the family's variant, so these fields must be those
  // of the scenario, unless the family names them.
  void keep_own(Parallelism& tried, const std::vector<Override>& further) const {
    const Parallelism& own = scenario_.plan.parallelism;
    const auto keep = [&](const char* field, auto Parallelism::*value) {
      const std::string path = fmt::format("parallelism.{}", field);
      if (std::ranges::find(further, path, &Override::path) == further.end())
        tried.*value = own.*value;
    };
    keep("context", &Parallelism::context);
    keep("pipeline", &Parallelism::pipeline);
    keep("first_stage_layers", &Parallelism::first_stage_layers);
    keep("last_stage_layers", &Parallelism::last_stage_layers);
    keep("layers_per_stage", &Parallelism::layers_per_stage);
    keep("replica_microbatches", &Parallelism::replica_microbatches);
    keep("tensor_per_stage", &Parallelism::tensor_per_stage);
    keep("embedding_in_split", &Parallelism::embedding_in_split);
    keep("loss_in_split", &Parallelism::loss_in_split);
  }

  void find_tries() {
    constexpr std::size_t kTries = 64;
    Layouts all;
    Family(scenario_, space_.scenario, space_.over).enumerate(all);
    // Evenly spread over the enumeration, so that the tries differ in all sizes.
    const std::size_t step = std::max<std::size_t>(1, all.legal.size() / kTries);
    tries_.emplace();
    for (std::size_t i = 0; i < all.legal.size(); i += step)
      tries_->push_back(all.legal[i].variant);
  }

  const SearchSpace& space_;
  const Scenario& scenario_;
  std::optional<std::vector<Variant>> tries_;
  std::size_t last_ = 0;  // index of the sizes that made the last legal scenario
};

// Refuses a model that is split by hand, because every other size would make it another split.
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

void refuse_none_legal(const SearchSpace& space, const Layouts& layouts,
                       const std::optional<InputError>& refusal) {
  if (layouts.checked_layouts == 0 && refusal) throw InputError(*refusal);
  if (!layouts.legal.empty()) return;
  throw InputError(Problem{
      .file = space.scenario.file,
      .pointer = {},
      .problem = fmt::format("none of {} combinations is a layout", layouts.checked_layouts),
      .hint = "give other values with --over"});
}

}  // namespace

Layouts enumerate(const SearchSpace& space, const Enumeration& enumeration) {
  const Scenario scenario = load_variant(space.scenario);
  refuse_split_by_hand(scenario);
  const std::vector<Variant> combinations = grid("", foreign_axes(space.over));
  Layouts layouts{.legal = {}, .further = combinations.size()};
  FamilyReader reader(space, scenario);
  // A family that no sizes make legal is left out. Its error matters only if all families are.
  std::optional<InputError> refusal;  // of the last family that is not legal
  for (std::size_t i = 0; i < combinations.size(); ++i) {
    if (i > 0 && enumeration.end && enumeration.end()) {
      layouts.combinations_not_read = combinations.size() - i;
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
  if (layouts.combinations_not_read == 0) refuse_none_legal(space, layouts, refusal);
  return layouts;
}

}  // namespace trainyard
