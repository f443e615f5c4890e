#include "models/layers/token_dispatcher.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/architecture/memory.hpp"
#include "sim/base/check.hpp"
#include "sim/collectives/algorithms/node_limited.hpp"

namespace trainyard {

namespace {

constexpr std::int64_t kScaledTogether = 128;  // numbers that share one fp8 scale

// The matrix of the opposite direction.
std::vector<std::int64_t> transposed(const std::vector<std::int64_t>& matrix, std::size_t n) {
  std::vector<std::int64_t> result(matrix.size());
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) result[to * n + from] = matrix[from * n + to];
  return result;
}

std::int64_t largest_row(const std::vector<std::int64_t>& matrix, std::size_t n) {
  std::int64_t largest = 0;
  for (std::size_t from = 0; from < n; ++from) {
    std::int64_t sum = 0;
    for (std::size_t to = 0; to < n; ++to) sum += matrix[from * n + to];
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

RowBytes dispatch_row_bytes(std::int64_t hidden, DataType precision) {
  RowBytes row{.payload = static_cast<std::int64_t>(element_bytes(precision)) * hidden,
               .scales = 0,
               .probability = kFp32Bytes};
  if (precision == DataType::Fp8)
    row.scales = (hidden + kScaledTogether - 1) / kScaledTogether * kFp32Bytes;
  return row;
}

TokenDispatcher::TokenDispatcher(LayerTools& tools)
    : BlockWriter(tools), settings_(options_.experts.settings) {
  TY_CHECK(shape_.routing != nullptr);
  query_ = {.layer = build_.tags().layer,
            .microbatch = build_.tags().microbatch,
            .replica = shape_.expert_rank.replica,
            .place = shape_.expert_rank.place};
  rows_ = shape_.routing->of(query_);
  tokens_ = shape_.tokens / shape_.tensor;
}

ChosenCall TokenDispatcher::all_to_all(Way way, DataType precision) const {
  const std::int64_t places = options_.experts.places;
  const RowBytes row = dispatch_row_bytes(arch_.hidden, precision);
  // Every rank gathers all tokens of the group; the way back sums the experts' outputs and scatters
  // them.
  if (settings_.dispatcher == Dispatcher::AllGather) {
    const CollectiveOp op =
        way == Way::ToExperts ? CollectiveOp::AllGather : CollectiveOp::ReduceScatter;
    return options_.experts.collectives.call(
        GroupKind::Expert, op, tokens_ * places * (row.payload + row.scales), precision);
  }
  const std::int64_t bytes = way == Way::ToExperts ? row.total() : row.payload + row.scales;
  ChosenAlgorithm algorithm =
      options_.experts.collectives.chosen(GroupKind::Expert, CollectiveOp::AllToAll);
  if (sends_tokens_once(settings_.dispatcher)) {
    const bool hybrid = settings_.dispatcher == Dispatcher::HybridEp;
    algorithm = {.name = fmt::format("{}:{}-{}-{}-{}", hybrid ? "hybrid_ep" : "node_limited",
                                     arch_.experts_per_token, arch_.experts, arch_.groups_per_token,
                                     arch_.expert_groups),
                 .field = "/experts/dispatcher"};
  }
  CollectiveCall call{.op = CollectiveOp::AllToAll,
                      .bytes = rows_.sent * bytes,
                      .dtype = precision,
                      .algorithm = std::move(algorithm.name)};
  const std::vector<std::int64_t> between = shape_.routing->between(query_);
  if (between.empty()) return {.call = std::move(call), .field = std::move(algorithm.field)};
  const auto n = static_cast<std::size_t>(places);
  call.matrix = way == Way::ToExperts ? between : transposed(between, n);
  for (std::int64_t& block : call.matrix) block *= bytes;
  // With different loads, the size of the call is that of the rank that sends most.
  call.bytes = largest_row(call.matrix, n);
  return {.call = std::move(call), .field = std::move(algorithm.field)};
}

OpIndex TokenDispatcher::travel(std::string_view name, Way way, DataType precision) {
  if (options_.experts.places == 1) return kNone;
  if (shape_.routing->balanced()) {
    return build_.collective(name, Stream::Expert, Slot::Expert, all_to_all(way, precision),
                             {build_.last_compute()});
  }
  // For a large group the matrix is long. It is equal on all EP ranks and in most microbatches, so
  // the builder caches the call by this key.
  const auto [layer, microbatch, replica] = shape_.routing->key_of(query_);
  const CallKey key{layer, microbatch, replica, static_cast<std::int64_t>(way),
                    static_cast<std::int64_t>(precision)};
  return build_.collective(name, Stream::Expert, Slot::Expert, key,
                           [&] { return all_to_all(way, precision); }, {build_.last_compute()});
}

void TokenDispatcher::exchange_counts() {
  // Ranks know the counts without telling each other where all tokens are gathered, and where every
  // expert gets as many tokens as its capacity.
  const bool told = options_.experts.places > 1 && settings_.dispatcher != Dispatcher::AllGather &&
                    !settings_.pad_to_capacity;
  if (!told) return;
  const bool maps = settings_.dispatcher == Dispatcher::HybridEp;
  const std::int64_t each = maps ? tokens_ * arch_.experts : kFp32Bytes * arch_.experts;
  const ChosenCall call = options_.experts.collectives.call(
      GroupKind::Expert, CollectiveOp::AllGather, each * options_.experts.places, DataType::Fp32);
  build_.wait_for(build_.collective(kExpertCountsOperation, Stream::Expert, Slot::Expert, call,
                                    {build_.last_compute()}));
  if (maps)
    elementwise_.memory_bound("routing_map_scan", MemoryBoundKind::Elementwise,
                              each * options_.experts.places);
}

// Reads tokens and writes their routed copies, or the reverse. Dispatchers that send a token once
// read and sum the tokens in their own kernels.
void TokenDispatcher::permute(std::string_view name) {
  if (options_.experts.sends_once()) return;
  elementwise_.memory_bound(name, MemoryBoundKind::Permute,
                            shape_.element * (tokens_ + rows_.sent) * arch_.hidden);
}

// Reads each number in training precision and writes one byte.
void TokenDispatcher::cast_rows(std::string_view name) {
  if (settings_.dispatch_precision != DataType::Fp8) return;
  elementwise_.memory_bound(name, MemoryBoundKind::Cast,
                            (shape_.element + 1) * tokens_ * arch_.hidden);
}

// Received tokens are ordered by sender; grouped GEMMs need them by expert. A token that was sent
// once is copied for each of its experts on this rank.
void TokenDispatcher::sort_rows(std::string_view name) {
  if (options_.experts.places == 1 || rows_.received.size() == 1) return;
  const double arrived = sends_tokens_once(settings_.dispatcher) ? distinct_share() : 1.0;
  const double moved = static_cast<double>(rows_.total()) * (1.0 + arrived);
  elementwise_.memory_bound(name, MemoryBoundKind::Permute,
                            shape_.element * std::llround(moved) * arch_.hidden);
}

// Tokens that arrive over the rows that they become: K copies of a token are for fewer ranks.
double TokenDispatcher::distinct_share() const {
  const TokenChoice choice{.picks = arch_.experts_per_token,
                           .experts = arch_.experts,
                           .reached = arch_.groups_per_token,
                           .groups = arch_.expert_groups};
  return distinct_units(choice, options_.experts.places) /
         static_cast<double>(arch_.experts_per_token);
}

void TokenDispatcher::join_expert_tensor(std::string_view name, CollectiveOp op) {
  if (options_.experts.tensor == 1) return;
  const std::int64_t bytes = rows_.total() * arch_.hidden * shape_.element;
  if (bytes == 0) return;
  const ChosenCall call =
      options_.experts.collectives.call(GroupKind::Expert, op, bytes, shape_.dtype);
  build_.wait_for(
      build_.collective(name, Stream::Expert, Slot::ExpertTensor, call, {build_.last_compute()}));
}

void TokenDispatcher::gather_tokens(std::string_view name, std::int64_t bytes_each) {
  if (shape_.sequence_parallel) return;
  group_.collective(CollectiveOp::AllGather, shape_.tokens * bytes_each, name, true);
}

}  // namespace trainyard
