#include "scenarios/simulate/setup_lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/architecture/architecture.hpp"
#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

std::string model_text(const Architecture& model) {
  const std::int64_t all = parameter_count(model);
  const std::int64_t active = active_parameter_count(model);
  std::string text =
      fmt::format("{}: {} parameters", model.name, short_count(static_cast<double>(all)));
  if (active < all)
    text += fmt::format(", {} of them used by a token", short_count(static_cast<double>(active)));
  return text;
}

std::string cluster_text(const Cluster& cluster) {
  const ClusterFacts& facts = cluster.facts();
  return fmt::format("{} GPUs: {}{}", cluster.gpus().size(), facts.name,
                     cluster.has_mixed_gpus() ? "" : " (" + facts.gpu + ")");
}

// The sizes above 1, and how the pipeline and the optimizer work.
std::string layout_text(const Parallelism& layout) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* name, std::int64_t size) {
    if (size > 1) parts.push_back(fmt::format("{} {}", name, size));
  };
  if (layout.tensor_per_stage.empty()) {
    add("tensor", layout.tensor);
  } else {
    parts.push_back(
        fmt::format("tensor {} on the stages", fmt::join(layout.tensor_per_stage, ", ")));
  }
  add("context", layout.context);
  if (layout.pipeline > 1)
    parts.push_back(fmt::format(
        "pipeline {} ({}{})", layout.pipeline, layout.schedule,
        layout.interleave > 1 ? fmt::format(", {} chunks a rank", layout.interleave) : ""));
  add("data", layout.data);
  add("expert", layout.expert);
  if (layout.zero_stage > 0) parts.push_back(fmt::format("ZeRO {}", layout.zero_stage));
  if (layout.sequence_parallel && layout.tensor > 1) parts.emplace_back("sequence parallel");
  return parts.empty() ? "one rank" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string batch_text(const TrainingPlan& plan) {
  const Training& training = plan.training;
  const auto tokens = static_cast<double>(training.global_batch_size) *
                      static_cast<double>(training.sequence_length);
  const std::vector<std::int64_t>& unequal = plan.parallelism.replica_microbatches;
  const std::string microbatches =
      unequal.empty() ? fmt::format("{} microbatches of {} a replica", plan.microbatches(),
                                    training.micro_batch_size)
                      : fmt::format("{} microbatches of {} on the replicas",
                                    fmt::join(unequal, ", "), training.micro_batch_size);
  return fmt::format("{} sequences of {} tokens ({} tokens), {}", training.global_batch_size,
                     training.sequence_length, short_count(tokens), microbatches);
}

std::string precision_text(const TrainingPlan& plan) {
  std::string text = std::string(to_string(plan.training.precision));
  if (plan.training.recipe != "standard") text += fmt::format(", recipe {}", plan.training.recipe);
  if (plan.training.recompute != Recompute::None)
    text += fmt::format(", {} recomputation",
                        plan.training.recompute == Recompute::Full ? "full" : "selective");
  return text;
}

}  // namespace

std::vector<SetupLine> setup_lines(const Scenario& scenario, const Cluster& cluster) {
  const TrainingPlan& plan = scenario.plan;
  std::vector<SetupLine> lines;
  if (!scenario.changes.empty())
    lines.push_back({"changed", fmt::format("{}", fmt::join(scenario.changes, ", "))});
  lines.push_back({"model", model_text(plan.architecture)});
  lines.push_back({"cluster", cluster_text(cluster)});
  lines.push_back({"layout", layout_text(plan.parallelism)});
  lines.push_back({"batch", batch_text(plan)});
  if (const LocalSteps& local = plan.local_steps; local.used())
    lines.push_back(
        {"workers", fmt::format("{} with this layout and batch each, which exchange "
                                "weights every {} steps in {}",
                                local.workers, local.every, to_string(local.precision))});
  lines.push_back({"precision", precision_text(plan)});
  return lines;
}

}  // namespace trainyard
