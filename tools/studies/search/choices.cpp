#include "tools/studies/search/choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

// Of a sequence, on one rank: less leaves kernels too short to hide what the ranks exchange.
constexpr std::int64_t kLeastTokens = 8192;

constexpr std::array<const char*, 10> kOwnPaths = {
    "parallelism.tensor",     "parallelism.context",       "parallelism.pipeline",
    "parallelism.interleave", "parallelism.schedule",      "parallelism.expert",
    "parallelism.zero_stage", "parallelism.expert_tensor", "training.micro_batch_size",
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

// The embedding and the loss count as layers of a split that is uneven by intent.
std::int64_t split_layers(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  return plan.architecture.layers + std::int64_t{p.embedding_in_split} +
         std::int64_t{p.loss_in_split};
}

}  // namespace

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
  return sizes("parallelism.pipeline").value_or(divisors(split_layers(plan_)));
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

}  // namespace trainyard
