#include "models/expert_routing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/layers/layer_block.hpp"
#include "sim/base/check.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/random.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kRememberedMost = 4096;  // cached vectors: 8 MiB for 256 experts

std::int64_t sum_of(std::span<const std::int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

// `total` in `parts` parts as equal as integers allow, the larger ones first.
std::vector<std::int64_t> evenly(std::int64_t total, std::int64_t parts) {
  std::vector<std::int64_t> share(static_cast<std::size_t>(parts), total / parts);
  for (std::int64_t i = 0; i < total % parts; ++i) ++share[static_cast<std::size_t>(i)];
  return share;
}

// Rounds exact quotas to integers that add up to `total`, by largest remainders.
void round_to(std::vector<std::int64_t>& rows, const std::vector<double>& quotas,
              std::int64_t total, std::int64_t most) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(quotas[i]);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return quotas[a] - std::floor(quotas[a]) > quotas[b] - std::floor(quotas[b]);
  });
  // One pass is enough in exact arithmetic. Rounding errors in the quotas can make more passes
  // necessary.
  for (std::int64_t left = total - sum_of(rows); left > 0;) {
    for (const std::size_t i : order) {
      if (left == 0 || rows[i] == most) continue;
      ++rows[i];
      --left;
    }
  }
}

using Json = nlohmann::ordered_json;

// Reads one list of counts. Errors are reported to the file.
std::vector<double> read_layer(JsonObject& root, const Json& list, std::int64_t experts) {
  std::vector<double> counts;
  double sum = 0.0;
  if (list.is_array()) {
    for (const Json& count : list) {
      counts.push_back(count.is_number() ? count.get<double>() : -1.0);
      if (counts.back() < 0.0) break;
      sum += counts.back();
    }
  }
  if (static_cast<std::int64_t>(counts.size()) == experts && sum > 0.0 && counts.back() >= 0.0)
    return counts;
  root.report("counts",
              fmt::format("has {} where the counts of {} experts belong", shown(list), experts),
              "give one number of tokens for each expert, not all zero");
  // After an error the reader continues with equal shares, to report all problems of the file.
  return std::vector<double>(static_cast<std::size_t>(experts), 1.0);
}

std::vector<std::vector<double>> read_table(JsonObject& root, const Json& table,
                                            const Architecture& a) {
  std::vector<std::vector<double>> layers;
  if (table.is_array()) {
    for (const Json& list : table) {
      layers.push_back(read_layer(root, list, a.experts));
      if (static_cast<std::int64_t>(layers.size()) > a.layers) break;
    }
  }
  const std::int64_t wanted = layers_with_experts(a);
  if (static_cast<std::int64_t>(layers.size()) != wanted) {
    root.report(
        "counts",
        fmt::format("has {} layers, but {} has {} with experts", layers.size(), a.name, wanted),
        "give one list for each layer with experts");
  }
  return layers;
}

}  // namespace

ExpertCounts read_expert_counts(const std::string& name, const Architecture& architecture) {
  JsonFile file = JsonFile::read(name);
  JsonObject root = file.root();
  (void)root.text("source", "");
  const Json& counts = root.raw("counts");
  ExpertCounts read;
  const bool several = counts.is_array() && !counts.empty() && counts.front().is_array() &&
                       !counts.front().empty() && counts.front().front().is_array();
  if (several) {
    for (const Json& table : counts) read.tables.push_back(read_table(root, table, architecture));
  } else {
    read.tables.push_back(read_table(root, counts, architecture));
  }
  file.finish();
  return read;
}

std::int64_t ExpertRows::total() const { return sum_of(received); }

std::vector<std::int64_t> apportion(std::span<const double> shares, std::int64_t total,
                                    std::int64_t most) {
  TY_CHECK(!shares.empty() && total >= 0 && most >= 0, total, most);
  const auto count = static_cast<std::int64_t>(shares.size());
  total = std::min(total, most * count);
  // Quotas above `most` are cut to it, and the rest is redistributed among the other experts. Every
  // pass fills at least one more expert, so the loop ends after at most shares.size() + 1 passes.
  std::vector<double> quotas(shares.size(), 0.0);
  std::vector<bool> full(shares.size(), false);
  auto left = static_cast<double>(total);
  for (bool again = true; again;) {
    again = false;
    double weight = 0.0;
    double open = 0.0;
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (!full[i]) weight += shares[i], open += 1.0;
    const double available = left;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (full[i]) continue;
      // If only experts with a share of zero are left, they get equal quotas.
      quotas[i] = available * (weight > 0.0 ? shares[i] / weight : 1.0 / open);
      if (quotas[i] <= static_cast<double>(most)) continue;
      quotas[i] = static_cast<double>(most);
      left -= quotas[i];
      full[i] = again = true;
    }
  }
  std::vector<std::int64_t> rows(shares.size());
  round_to(rows, quotas, total, most);
  return rows;
}

ExpertRouting::ExpertRouting(const TrainingPlan& plan) : plan_(plan) {
  const Parallelism& p = plan.parallelism;
  tokens_ = plan.training.micro_batch_size * plan.training.sequence_length / (p.context * p.tensor);
  if (plan.experts.routing == RoutingKind::Recorded)
    counts_ = read_expert_counts(plan.experts.counts, plan.architecture);
}

bool ExpertRouting::balanced() const { return plan_.experts.routing == RoutingKind::Balanced; }

bool ExpertRouting::by_replica() const { return !balanced() && plan_.experts.independent_replicas; }

bool ExpertRouting::by_microbatch() const {
  const RoutingKind kind = plan_.experts.routing;
  return kind == RoutingKind::Dirichlet || kind == RoutingKind::Recorded;
}

// The capacity is ceil(capacity_factor * tokens * k / experts), per expert and sending rank.
std::int64_t ExpertRouting::capacity() const {
  const Architecture& a = plan_.architecture;
  if (plan_.experts.capacity_factor <= 0.0) return 0;
  const double even =
      static_cast<double>(tokens_ * a.experts_per_token) / static_cast<double>(a.experts);
  return static_cast<std::int64_t>(std::ceil(even * plan_.experts.capacity_factor));
}

std::vector<double> ExpertRouting::shares(const RoutingQuery& query) const {
  const auto experts = static_cast<std::size_t>(plan_.architecture.experts);
  // The random stream depends only on the seed and the query, so every rank draws the same shares,
  // in any order of calls.
  Random random = Random(plan_.seed)
                      .split("routing")
                      .split(static_cast<std::uint64_t>(by_replica() ? query.replica : 0))
                      .split(static_cast<std::uint64_t>(query.layer));
  std::vector<double> shares(experts, 1.0);
  if (plan_.experts.routing == RoutingKind::Zipf) {
    const auto order = random.permutation(static_cast<std::uint32_t>(experts));
    for (std::size_t i = 0; i < experts; ++i)
      shares[order[i]] = std::pow(static_cast<double>(i + 1), -plan_.experts.zipf_exponent);
  } else if (plan_.experts.routing == RoutingKind::Dirichlet) {
    random = random.split(static_cast<std::uint64_t>(query.microbatch));
    for (double& share : shares) share = random.gamma(plan_.experts.dirichlet_alpha);
  } else if (plan_.experts.routing == RoutingKind::Recorded) {
    std::size_t number = 0;  // index of the layer among the layers with experts
    for (std::int64_t layer = 0; layer < query.layer; ++layer)
      if (routes_tokens(layer_kind(plan_.architecture, layer))) ++number;
    const auto& table =
        counts_.tables[static_cast<std::size_t>(query.microbatch) % counts_.tables.size()];
    // MTP layers follow the last layer and use the lists cyclically.
    shares = table[number % table.size()];
  }
  return shares;
}

ExpertRouting::RowsKey ExpertRouting::key_of(const RoutingQuery& query) const {
  if (balanced()) return {};
  return {query.layer, by_microbatch() ? query.microbatch : 0, by_replica() ? query.replica : 0};
}

const std::vector<std::int64_t>& ExpertRouting::remembered(const RoutingQuery& query) const {
  const RowsKey key = key_of(query);
  if (const auto known = rows_.find(key); known != rows_.end()) return known->second;
  if (rows_.size() >= kRememberedMost) rows_.clear();
  return rows_.emplace(key, dealt(query)).first->second;
}

std::vector<std::int64_t> ExpertRouting::rows_by_expert(const RoutingQuery& query) const {
  return remembered(query);
}

// Tokens above the capacity are dropped; with padding every expert has exactly its capacity.
std::vector<std::int64_t> ExpertRouting::dealt(const RoutingQuery& query) const {
  const Architecture& a = plan_.architecture;
  const std::int64_t cap = capacity();
  std::vector<std::int64_t> rows = apportion(shares(query), tokens_ * a.experts_per_token, tokens_);
  for (std::int64_t& row : rows) {
    if (cap > 0) row = plan_.experts.pad_to_capacity ? cap : std::min(row, cap);
  }
  return rows;
}

// The loads are equal on every rank, even if the experts' shares are not integers.
ExpertRows ExpertRouting::balanced_rows() const {
  const Architecture& a = plan_.architecture;
  const Parallelism& p = plan_.parallelism;
  const std::int64_t cap = capacity() * a.experts;  // capacity of all experts together
  std::int64_t sent = tokens_ * a.experts_per_token;
  if (cap > 0) sent = plan_.experts.pad_to_capacity ? cap : std::min(sent, cap);
  return {.received = evenly(sent * p.expert_tensor_size(), a.experts / p.expert), .sent = sent};
}

// All ranks of the group send the same numbers, so an expert receives one rank's number times the
// size of its EP and expert tensor groups.
ExpertRows ExpertRouting::of(const RoutingQuery& query) const {
  if (balanced()) return balanced_rows();
  const Parallelism& p = plan_.parallelism;
  const std::vector<std::int64_t>& by_expert = remembered(query);
  const std::size_t local = by_expert.size() / static_cast<std::size_t>(p.expert);
  ExpertRows rows{.received = {}, .sent = sum_of(by_expert)};
  const std::size_t first = static_cast<std::size_t>(query.place) * local;
  for (std::size_t i = 0; i < local; ++i)
    rows.received.push_back(by_expert[first + i] * p.expert * p.expert_tensor_size());
  return rows;
}

// All ranks send the same numbers, so all rows of the matrix are equal.
std::vector<std::int64_t> ExpertRouting::between(const RoutingQuery& query) const {
  std::vector<std::int64_t> between;
  if (balanced()) return between;
  const std::vector<std::int64_t>& by_expert = remembered(query);
  const auto places = static_cast<std::size_t>(plan_.parallelism.expert);
  const std::size_t local = by_expert.size() / places;
  std::vector<std::int64_t> to_place(places);
  for (std::size_t i = 0; i < by_expert.size(); ++i) to_place[i / local] += by_expert[i];
  for (std::size_t from = 0; from < places; ++from)
    between.insert(between.end(), to_place.begin(), to_place.end());
  return between;
}

}  // namespace trainyard
