#include "tools/serve/neighbours.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "models/plan.hpp"
#include "scenarios/reader/overrides.hpp"
#include "sim/base/error.hpp"
#include "tools/studies/search/space.hpp"

namespace trainyard::serve {

namespace {

using Json = nlohmann::ordered_json;

// A size of a layout: a number for the distance between two values, and its text. Sizes that are
// multiplied count in doublings (tensor 2 -> 8 is as far as 8 -> 2). The number of replicas is none
// of them, since the others determine it.
struct Size {
  const char* name;
  double (*number)(const TrainingPlan&);
  std::string (*text)(const TrainingPlan&);
};

template <std::int64_t Parallelism::*Member>
constexpr Size size_of(const char* name) {
  return {
      .name = name,
      .number =
          [](const TrainingPlan& plan) {
            return std::log2(static_cast<double>(plan.parallelism.*Member));
          },
      .text = [](const TrainingPlan& plan) { return std::to_string(plan.parallelism.*Member); }};
}

const std::array<Size, 8>& sizes() {
  static const std::array<Size, 8> kSizes{
      {size_of<&Parallelism::tensor>("tensor"),
       size_of<&Parallelism::pipeline>("pipeline"),
       {.name = "microbatch size",
        .number =
            [](const TrainingPlan& plan) {
              return std::log2(static_cast<double>(plan.training.micro_batch_size));
            },
        .text =
            [](const TrainingPlan& plan) {
              return std::to_string(plan.training.micro_batch_size);
            }},
       {.name = "recompute",
        .number =
            [](const TrainingPlan& plan) { return static_cast<double>(plan.training.recompute); },
        .text = [](const TrainingPlan& plan) -> std::string {
          switch (plan.training.recompute) {
            case Recompute::None:
              return "none";
            case Recompute::Selective:
              return "selective";
            case Recompute::Full:
              return "full";
          }
          return "";
        }},
       {.name = "schedule",
        .number =
            [](const TrainingPlan& plan) {
              return std::log2(static_cast<double>(plan.parallelism.interleave));
            },
        .text =
            [](const TrainingPlan& plan) {
              return plan.parallelism.interleave == 1
                         ? plan.parallelism.schedule
                         : fmt::format("{} x {}", plan.parallelism.schedule,
                                       plan.parallelism.interleave);
            }},
       {.name = "zero_stage",
        .number =
            [](const TrainingPlan& plan) {
              return static_cast<double>(plan.parallelism.zero_stage);
            },
        .text =
            [](const TrainingPlan& plan) { return std::to_string(plan.parallelism.zero_stage); }},
       size_of<&Parallelism::context>("context"),
       {.name = "expert",
        .number =
            [](const TrainingPlan& plan) {
              return std::log2(static_cast<double>(plan.parallelism.expert));
            },
        .text =
            [](const TrainingPlan& plan) {
              const Parallelism& p = plan.parallelism;
              return plan.architecture.has_experts()
                         ? fmt::format("{} (tensor {})", p.expert, p.expert_tensor_size())
                         : "";
            }}}};
  return kSizes;
}

// The number of the only size in which the plans differ; nothing if they differ in none or in
// several.
std::optional<std::size_t> only_difference(const TrainingPlan& a, const TrainingPlan& b) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < sizes().size(); ++i) {
    if (sizes()[i].text(a) == sizes()[i].text(b)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

struct Ranked {
  double distance = 0.0;
  Neighbour neighbour;
};

}  // namespace

std::vector<Neighbour> neighbours(const Scenario& scenario, std::shared_ptr<const Json> document,
                                  const std::stop_token& stop) {
  Layouts layouts;
  try {
    layouts = enumerate({.scenario = {.file = scenario.file, .document = std::move(document)}},
                        {.end = [&] { return stop.stop_requested(); }});
  } catch (const InputError&) {
    return {};  // a cluster or a model that the search does not lay out
  }
  std::vector<std::vector<Ranked>> by_size(sizes().size());
  for (const Layout& layout : layouts.legal) {
    const std::optional<std::size_t> one = only_difference(scenario.plan, layout.plan);
    if (!one) continue;
    const Size& size = sizes()[*one];
    by_size[*one].push_back(
        {.distance = std::abs(size.number(layout.plan) - size.number(scenario.plan)),
         .neighbour = {.name = fmt::format("{} {} -> {}", size.name, size.text(scenario.plan),
                                           size.text(layout.plan)),
                       .changes = layout.variant.changes}});
  }
  std::size_t most = 0;
  for (std::vector<Ranked>& ranked : by_size) {
    std::ranges::stable_sort(ranked, {}, &Ranked::distance);
    most = std::max(most, ranked.size());
  }
  std::vector<Neighbour> result;
  for (std::size_t turn = 0; turn < most; ++turn)
    for (std::vector<Ranked>& ranked : by_size)
      if (turn < ranked.size()) result.push_back(std::move(ranked[turn].neighbour));
  return result;
}

Json with_changes(const Json& document, const std::vector<Override>& changes) {
  Json changed = document;
  for (const Override& change : changes) changed = with_override(std::move(changed), change);
  return changed;
}

}  // namespace trainyard::serve
