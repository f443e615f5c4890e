#include "scenarios/reader/checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "scenarios/reader/power.hpp"
#include "scenarios/reader/reliability.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

namespace {

// Ranks have 32-bit numbers.
constexpr double kRanksMost = 0x1p31;

// The code counts bytes in signed 64-bit integers. The limit is half of their range, which covers
// the rounding of the estimates below.
constexpr double kBytesMost = 0x1p62;

// An upper bound of the bytes for any number that a step stores or sends, with its gradient, its
// optimizer state, and the copies that a norm or a loss makes of it.
constexpr double kBytesOfNumber = 64.0;

// A field that is a factor of a product.
struct Factor {
  std::string pointer;
  std::int64_t value = 1;
};

const Factor& largest(const std::vector<Factor>& factors) {
  return *std::max_element(factors.begin(), factors.end(),
                           [](const Factor& a, const Factor& b) { return a.value < b.value; });
}

double number(std::int64_t value) { return static_cast<double>(value); }

// Returns an upper bound of the numbers that one token produces in one layer, in the embedding and
// in the LM head.
double width(const TrainingPlan& plan) {
  const Architecture& a = plan.architecture;
  const double heads = number(a.heads) * (2.0 * number(a.head_dim) + 2.0 * number(a.value_head()));
  const double feed_forward = 3.0 * (number(a.ffn) + number(a.shared_ffn));
  const double experts = number(a.experts_per_token) *
                         (number(a.hidden) + 3.0 * number(a.expert_ffn)) *
                         std::max(1.0, plan.experts.capacity_factor);
  const double vocabulary =
      number(a.vocab) + number(plan.training.vocab_multiple) * number(plan.parallelism.tensor);
  return number(a.hidden) + heads + feed_forward + experts + number(a.experts) + vocabulary +
         number(a.query_latent) + number(a.kv_latent) + number(plan.training.lora_rank);
}

// Returns an upper bound of the parameters of the model, adapters included.
double parameters(const TrainingPlan& plan) {
  const Architecture& a = plan.architecture;
  const double heads = number(a.heads) * (2.0 * number(a.head_dim) + 2.0 * number(a.value_head()));
  const double inputs = number(a.hidden) + number(a.query_latent) + number(a.kv_latent) +
                        number(plan.training.lora_rank);
  const double experts = number(a.experts) * 3.0 * number(a.hidden) * number(a.expert_ffn);
  const double layer =
      inputs * (inputs + heads + 3.0 * (number(a.ffn) + number(a.shared_ffn)) + number(a.experts)) +
      experts;
  const double ends = number(a.hidden) * (2.0 * width(plan) + number(a.max_positions));
  return number(a.layers + plan.training.mtp_layers) * layer + ends;
}

double ranks(const TrainingPlan& plan) {
  const Parallelism& p = plan.parallelism;
  const double tensor =
      p.tensor_per_stage.empty()
          ? number(p.tensor) * number(p.pipeline)
          : std::accumulate(p.tensor_per_stage.begin(), p.tensor_per_stage.end(), 0.0,
                            [](double sum, std::int64_t one) { return sum + number(one); });
  return tensor * number(p.context) * number(p.data) * number(plan.workers()) +
         number(plan.servers.servers);
}

// Returns an upper bound of the activations that one replica produces in a step. With experts, the
// tokens of all replicas may reach one expert.
double activations(const TrainingPlan& plan) {
  const Training& t = plan.training;
  const Architecture& a = plan.architecture;
  const double data = number(plan.parallelism.data);
  // check_batch refuses more microbatches.
  const double replica = std::min(number(t.global_batch_size) / data,
                                  number(kMicrobatchesMost) * number(t.micro_batch_size));
  const double sequences = a.has_experts() ? replica * data : replica;
  const double scores =
      t.attention == AttentionKind::Unfused ? number(a.heads) * number(t.sequence_length) : 0.0;
  return sequences * number(t.sequence_length) * (width(plan) + scores) *
         number(a.layers + t.mtp_layers);
}

std::vector<Factor> model_factors(JsonFile& file, const Architecture& a) {
  // A model given by name has no fields in this file.
  const bool written = file.document()["model"].is_object();
  const auto at = [written](const char* field) {
    return written ? std::string("/model/") + field : std::string("/model");
  };
  return {{at("layers"), a.layers},   {at("hidden"), a.hidden},
          {at("heads"), a.heads},     {at("head_dim"), std::max(a.head_dim, a.value_head())},
          {at("ffn"), a.ffn},         {at("vocab"), a.vocab},
          {at("experts"), a.experts}, {at("expert_ffn"), std::max(a.expert_ffn, a.shared_ffn)}};
}

// Checks that ranks, bytes of weights and bytes of activations fit their types. Otherwise it
// reports the largest factor and returns false; no further rule may multiply the sizes then.
// Doubles hold the products, so the check itself cannot overflow.
bool check_sizes(const Check& check) {
  if (!check.model || !check.parallelism || !check.training) return true;
  const TrainingPlan& plan = check.scenario.plan;
  const Parallelism& p = plan.parallelism;
  const Training& t = plan.training;
  const auto refuse = [&check](const std::vector<Factor>& factors, const std::string& makes,
                               double amount, double most) {
    const Factor& blamed = largest(factors);
    check.file.report(
        blamed.pointer,
        fmt::format("{} makes {:.2g} {}, more than {:.2g}", blamed.value, amount, makes, most),
        "it is the largest of the factors; choose a smaller one");
    return false;
  };
  if (const double all = ranks(plan); all > kRanksMost)
    return refuse({{"/parallelism/tensor", p.tensor},
                   {"/parallelism/context", p.context},
                   {"/parallelism/pipeline", p.pipeline},
                   {"/parallelism/data", p.data},
                   {"/local_steps/workers", plan.workers()}},
                  "ranks", all, kRanksMost);
  std::vector<Factor> factors = model_factors(check.file, plan.architecture);
  const double state = parameters(plan) * std::max(kBytesOfNumber, 4.0 * ranks(plan));
  if (state > kBytesMost)
    return refuse(factors, "bytes of weights on all ranks", state, kBytesMost);
  factors.push_back({"/training/sequence_length", t.sequence_length});
  factors.push_back({"/training/global_batch_size", t.global_batch_size});
  factors.push_back({"/training/vocab_multiple", t.vocab_multiple});
  const double kept = activations(plan) * kBytesOfNumber;
  return kept <= kBytesMost || refuse(factors, "bytes of activations", kept, kBytesMost);
}

void check_nccl(const Check& check) {
  if (!check.file.is_sound("/collectives/nccl")) return;
  try {
    (void)nccl::options_of(check.scenario.plan.collectives.nccl);
  } catch (const InputError& error) {
    check.report(error, "/collectives/nccl");
  }
}

}  // namespace

void Check::report(const InputError& error, const std::string& at) const {
  for (const Problem& problem : error.problems())
    file.report(at + problem.pointer, problem.problem, problem.hint);
}

std::string divisors(std::int64_t number, std::int64_t most) {
  std::string text;
  for (std::int64_t divisor = 1; divisor <= std::min(number, most); ++divisor) {
    if (number % divisor != 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(divisor);
  }
  return text;
}

void check_scenario(JsonFile& file, const Scenario& scenario) {
  const Check check{file, scenario};
  if (!check_sizes(check)) return;  // the other rules multiply the sizes
  check_rank_order(check);
  check_tensor(check);
  check_context(check);
  check_chunked_tensor(check);
  check_gpus(check);
  check_placement(check);
  check_batch(check);
  check_sequence(check);
  check_layers(check);
  check_schedule_shape(check);
  check_shards(check);
  check_experts(check);
  check_recomputation(check);
  check_adapters(check);
  check_frozen(check);
  check_operator_devices(check);
  check_documents(check);
  check_servers(check);
  check_local_steps(check);
  check_offload(check);
  check_mtp_layers(check);
  check_nccl(check);
  check_reliability(check);
  check_power(check);
  if (check.cluster) check_gpu_profiles(check);
  if (check.cluster) check_cluster_builds(check.file, "/cluster", check.scenario.cluster);
}

}  // namespace trainyard
