// Rules of tensor parallelism: what divides among tensor ranks, and stages with unequal numbers of
// them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "models/architecture/weights.hpp"
#include "models/pipeline_shape.hpp"
#include "models/schedules/schedule.hpp"
#include "scenarios/reader/checks.hpp"

namespace trainyard {

namespace {

// The rules for one number of tensor ranks, which `field` states.
class TensorRanks {
 public:
  TensorRanks(const Check& check, std::int64_t tensor, const char* field)
      : check_(check), tensor_(tensor), field_(field) {}

  void divides(std::int64_t amount, std::string_view what) const {
    if (amount % tensor_ == 0) return;
    refuse(fmt::format("{} {} do not divide among {} tensor ranks", amount, what, tensor_),
           fmt::format("divisors: {}", divisors(amount, 64)));
  }

  // With more tensor ranks than key-value heads, ranks hold copies of the heads: each head is on
  // the same number of ranks, among which its columns are divided. Latent attention expands keys
  // and values to one head for each query head.
  void divides_key_value_heads() const {
    const Architecture& model = check_.architecture();
    if (model.latent() || model.kv_heads >= model.heads) return;
    if (!replicates_kv_heads(model, tensor_)) {
      divides(model.kv_heads, "key-value heads");
    } else if (tensor_ % model.kv_heads != 0) {
      refuse(fmt::format("{} tensor ranks cannot share {} key-value heads evenly", tensor_,
                         model.kv_heads),
             fmt::format("choose a divisor or a multiple of {}", model.kv_heads));
    } else {
      divides(2 * model.kv_width(), "columns of keys and values");
    }
  }

 private:
  void refuse(const std::string& problem, const std::string& hint) const {
    check_.file.report(field_, problem, hint);
  }

  const Check& check_;
  std::int64_t tensor_;
  const char* field_;
};

constexpr const char* kPerStage = "/parallelism/tensor_per_stage";

// Two numbers of which neither divides the other; nothing if there are none. Each then passes equal
// parts of an activation, or of a layer, to each other one.
std::optional<std::pair<std::int64_t, std::int64_t>> indivisible(
    const std::vector<std::int64_t>& numbers) {
  const std::set<std::int64_t> sorted(numbers.begin(), numbers.end());
  const auto odd = std::ranges::adjacent_find(
      sorted, [](std::int64_t less, std::int64_t more) { return more % less != 0; });
  if (odd == sorted.end()) return std::nullopt;
  return std::pair(*odd, *std::next(odd));
}

// The schedules in which activations go from each rank to the next one only.
std::string forward_schedules() {
  std::vector<std::string_view> names;
  for (const Schedule* schedule : schedules())
    if (schedule->placement() == StagePlacement::Wrap) names.push_back(schedule->name());
  return fmt::format("choose {}", fmt::join(names, ", "));
}

// Reports what is not modelled together with unequal stages.
void check_rest_of_unequal_stages(const Check& check) {
  const TrainingPlan& plan = check.scenario.plan;
  const Parallelism& p = plan.parallelism;
  const auto refuse = [&check](const char* field, const std::string& problem,
                               const std::string& hint) {
    check.file.report(field, problem, hint);
  };
  const auto unknown = [](const char* what) {
    return fmt::format("{} not modelled together with tensor_per_stage", what);
  };
  const char* off = "leave one of them out";
  if (p.context > 1)
    refuse("/parallelism/context", unknown("ranks that share a sequence are"), off);
  if (!p.operator_devices.empty())
    refuse("/parallelism/operator_devices", unknown("a model that is split by operator is"), off);
  if (!p.rank_order.ends_with("pp"))
    refuse("/parallelism/rank_order",
           fmt::format("\"{}\" does not put the ranks of a stage together, as stages of unequal "
                       "size need",
                       p.rank_order),
           "let it end with pp");
  if (placement_of(p) != StagePlacement::Wrap)
    refuse("/parallelism/schedule",
           unknown("schedules that send activations back to earlier ranks are"),
           forward_schedules());
  if (!check.model) return;
  if (plan.architecture.has_experts()) refuse("/model", unknown("experts are"), off);
  const bool shared = plan.architecture.tied_embeddings || plan.training.mtp_layers > 0;
  if (shared && p.tensor_of(0) != p.tensor_of(p.pipeline - 1))
    refuse(kPerStage, "first and last stage share the embedding, whose parts must be equal",
           "give both the same number of tensor ranks");
}

// Returns whether the numbers of tensor ranks fit each other.
bool check_unequal_stages(const Check& check) {
  const Parallelism& p = check.sizes();
  const auto stages = static_cast<std::int64_t>(p.tensor_per_stage.size());
  const std::int64_t most = p.most_tensor();
  if (stages != p.pipeline) {
    check.file.report(kPerStage,
                      fmt::format("has {} numbers for {} pipeline ranks", stages, p.pipeline),
                      "give each pipeline rank one number");
  } else if (p.tensor != most) {
    check.file.report(
        "/parallelism/tensor",
        fmt::format("is {}, but the stage with most tensor ranks has {}", p.tensor, most),
        "leave it out where tensor_per_stage is given");
  } else if (const auto odd = indivisible(p.tensor_per_stage)) {
    check.file.report(kPerStage,
                      fmt::format("{} does not divide {}, and stages pass each other equal parts",
                                  odd->first, odd->second),
                      "choose numbers that divide each other");
  } else {
    check_rest_of_unequal_stages(check);
    return true;
  }
  return false;
}

}  // namespace

void check_tensor(const Check& check) {
  if (!check.parallelism) return;
  const Parallelism& p = check.sizes();
  const bool unequal = !p.tensor_per_stage.empty();
  if ((unequal && !check_unequal_stages(check)) || !check.model) return;
  const Architecture& model = check.architecture();
  std::set<std::int64_t> numbers(p.tensor_per_stage.begin(), p.tensor_per_stage.end());
  if (!unequal) numbers.insert(p.tensor);
  for (const std::int64_t tensor : numbers) {
    const TensorRanks ranks(check, tensor, unequal ? kPerStage : "/parallelism/tensor");
    ranks.divides(model.heads, "heads");
    ranks.divides_key_value_heads();
    ranks.divides(model.ffn, "feed-forward columns");
    ranks.divides(model.shared_ffn, "columns of shared experts");
  }
}

void check_chunked_tensor(const Check& check) {
  const Parallelism& p = check.sizes();
  if (!check.parallelism || !p.chunked_tensor || p.sequence_parallel) return;
  check.file.report("/parallelism/chunked_tensor",
                    "splits the all_gathers and reduce_scatters of sequence_parallel, which is off",
                    "set /parallelism/sequence_parallel to true");
}

}  // namespace trainyard
