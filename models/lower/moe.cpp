#include "models/lower/moe.hpp"

#include <fmt/format.h>

#include <string>

#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr std::int64_t kScaledTogether = 128;  // numbers that share one scale in fp8
constexpr std::int64_t kFp32Bytes = 4;

// The matrix of the way back.
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

MoeLowering::MoeLowering(LayerTools& tools) : BlockWriter(tools) {
  TY_CHECK(shape_.routing != nullptr);
  query_ = {.layer = build_.tags().layer,
            .microbatch = build_.tags().microbatch,
            .replica = shape_.seat.replica,
            .place = shape_.seat.place};
  rows_ = shape_.routing->of(query_);
  tokens_ = shape_.tokens / shape_.tensor;
  inner_ = arch_.expert_ffn / options_.experts.tensor;
  shared_ = arch_.shared_ffn / shape_.tensor;
}

Call MoeLowering::exchange(Way way, DataType precision) const {
  const std::int64_t places = options_.experts.places;
  const RowBytes row = dispatch_row_bytes(arch_.hidden, precision);
  if (options_.experts.settings.dispatcher == Dispatcher::AllGather) {
    const CollectiveOp op =
        way == Way::ToExperts ? CollectiveOp::AllGather : CollectiveOp::ReduceScatter;
    return {.op = op,
            .bytes = tokens_ * places * (row.payload + row.scales),
            .dtype = precision,
            .algorithm = options_.experts.collectives.of(GroupKind::Expert, op)};
  }
  const std::int64_t bytes = way == Way::ToExperts ? row.total() : row.payload + row.scales;
  Call call{
      .op = CollectiveOp::AllToAll,
      .bytes = rows_.sent * bytes,
      .dtype = precision,
      .algorithm = options_.experts.collectives.of(GroupKind::Expert, CollectiveOp::AllToAll)};
  if (options_.experts.settings.dispatcher == Dispatcher::NodeLimited) {
    call.algorithm = fmt::format("node_limited:{}-{}-{}-{}", arch_.experts_per_token, arch_.experts,
                                 arch_.groups_per_token, arch_.expert_groups);
  }
  const std::vector<std::int64_t> between = shape_.routing->between(query_);
  if (between.empty()) return call;
  const auto n = static_cast<std::size_t>(places);
  call.matrix = way == Way::ToExperts ? between : transposed(between, n);
  for (std::int64_t& block : call.matrix) block *= bytes;
  call.bytes = largest_row(call.matrix, n);
  return call;
}

OpIndex MoeLowering::travel(std::string_view name, Way way, DataType precision) {
  if (options_.experts.places == 1) return kNone;
  if (shape_.routing->balanced()) {
    return build_.collective(name, Stream::Expert, Slot::Expert, exchange(way, precision),
                             {build_.last_compute()});
  }
  // The matrix of a large group is long, and the same in all places and most microbatches.
  const auto [layer, microbatch, replica] = shape_.routing->key_of(query_);
  const CallKey key{layer, microbatch, replica, static_cast<std::int64_t>(way),
                    static_cast<std::int64_t>(precision)};
  return build_.collective(name, Stream::Expert, Slot::Expert, key,
                           [&] { return exchange(way, precision); }, {build_.last_compute()});
}

void MoeLowering::join_expert_tensor(std::string_view name, CollectiveOp op) {
  if (options_.experts.tensor == 1) return;
  const Call call{.op = op,
                  .bytes = rows_.total() * arch_.hidden * shape_.element,
                  .dtype = shape_.dtype,
                  .algorithm = options_.experts.collectives.of(GroupKind::Expert, op)};
  if (call.bytes == 0) return;
  build_.wait_for(
      build_.collective(name, Stream::Expert, Slot::ExpertTensor, call, {build_.last_compute()}));
}

void MoeLowering::gather_tokens(std::string_view name, std::int64_t bytes_each) {
  if (shape_.sequence_parallel) return;
  tensor_.collective(CollectiveOp::AllGather, shape_.tokens * bytes_each, name, true);
}

// Rows arrive by sender; grouped products want them by expert.
void MoeLowering::sort_rows(std::string_view name) {
  if (options_.experts.places == 1 || rows_.received.size() == 1) return;
  elementwise_.memory_bound(name, MemoryBoundKind::Permute,
                            2 * shape_.element * rows_.total() * arch_.hidden);
}

// Reads the rows, writes a byte each.
void MoeLowering::cast_rows(std::string_view name) {
  if (options_.experts.settings.dispatch_precision != DataType::Fp8) return;
  elementwise_.memory_bound(name, MemoryBoundKind::Cast,
                            (shape_.element + 1) * tokens_ * arch_.hidden);
}

// Rows that came in 16 bits, or were made in them, on their way into an 8-bit product and its
// weight gradient: 2 bytes read, 1 + 1 written.
void MoeLowering::quantise_rows(std::string_view name, std::int64_t width) {
  if (!options_.experts.products_in_8_bits) return;
  elementwise_.memory_bound(name, MemoryBoundKind::Cast,
                            (shape_.element + 2) * rows_.total() * width);
}

// Tokens on one side, their rows on the other: one is read and the other written.
void MoeLowering::permute(std::string_view name) {
  elementwise_.memory_bound(name, MemoryBoundKind::Permute,
                            shape_.element * (tokens_ + rows_.sent) * arch_.hidden);
}

// In the precision of training, whatever the recipe multiplies the others in.
Gemm MoeLowering::router_product(std::int64_t m, std::int64_t n, std::int64_t k,
                                 GemmPass pass) const {
  Gemm gemm = linear_.product(m, n, k, pass);
  gemm.dtype = shape_.dtype;
  return gemm;
}

// Scores of all experts, then the best K: reads the scores, writes them as fp32 probabilities and
// reads those, writes a number and an index for each of the K.
void MoeLowering::route() {
  build_.compute("router_gemm", router_product(shape_.local_tokens, arch_.experts, arch_.hidden,
                                               GemmPass::Forward));
  elementwise_.memory_bound(
      "router_top_k", MemoryBoundKind::Softmax,
      shape_.local_tokens * ((shape_.element + 2 * kFp32Bytes) * arch_.experts +
                             2 * kFp32Bytes * arch_.experts_per_token));
}

OpIndex MoeLowering::grouped(std::string_view name, std::int64_t n, std::int64_t k, GemmPass pass) {
  const Gemm one = linear_.product(1, n, k, pass);
  if (pass != GemmPass::WeightGrad) linear_.dequantise(name, std::ssize(rows_.received) * n * k);
  return build_.compute(name, GroupedGemm{.rows = rows_.received,
                                          .n = n,
                                          .k = k,
                                          .dtype = one.dtype,
                                          .pass = pass,
                                          .accumulate_fp32 = one.accumulate_fp32,
                                          .per_expert = options_.experts.settings.products !=
                                                        ExpertProducts::OneLaunch});
}

void MoeLowering::elementwise(std::string_view name, std::int64_t bytes, std::int64_t launches) {
  build_.compute(
      name,
      MemoryBound{.kind = MemoryBoundKind::Elementwise, .bytes = bytes, .launches = launches});
}

void MoeLowering::activate_experts() {
  if (fused()) return;
  const std::int64_t up = arch_.ffn_inputs() * rows_.total() * inner_;
  if (arch_.clamped_experts) elementwise("expert_clamp", 4 * shape_.element * up, 3);
  elementwise_.activation_forward("expert_activation", rows_.total() * inner_);
}

void MoeLowering::activate_experts_backward() {
  if (fused()) return;
  elementwise_.activation_backward("expert_activation_backward", rows_.total() * inner_);
  if (!arch_.clamped_experts) return;
  const std::int64_t half = rows_.total() * inner_;
  const std::int64_t gate = 3 * shape_.element + 2;
  const std::int64_t up = 4 * shape_.element + 6;
  elementwise("expert_clamp_backward", half * (gate + up + 2 * 2 * shape_.element), 7);
}

// A product and a sum for each expert, then all of them joined and cast.
void MoeLowering::add_expert_biases() {
  if (!arch_.biases || fused()) return;
  elementwise("expert_bias", (2 * shape_.element + 6 * kFp32Bytes) * rows_.total() * arch_.hidden,
              2 * std::ssize(rows_.received) + 2);
}

void MoeLowering::add_expert_biases_backward() {
  if (!arch_.biases || fused()) return;
  elementwise("expert_bias_backward",
              (4 * shape_.element + 8 * kFp32Bytes) * rows_.total() * arch_.hidden,
              5 * std::ssize(rows_.received) + 2);
}

void MoeLowering::experts_forward() {
  sort_rows("expert_sort");
  join_expert_tensor("expert_tensor_all_gather", CollectiveOp::AllGather);
  const bool arrive_in_8_bits = options_.experts.settings.dispatch_precision == DataType::Fp8;
  if (!arrive_in_8_bits) quantise_rows("expert_up_quantise", arch_.hidden);
  grouped("expert_up_gemm", arch_.ffn_inputs() * inner_, arch_.hidden, GemmPass::Forward);
  activate_experts();
  if (!fused()) quantise_rows("expert_down_input_quantise", inner_);
  grouped("expert_down_gemm", arch_.hidden, inner_, GemmPass::Forward);
  add_expert_biases();
  join_expert_tensor("expert_tensor_reduce_scatter", CollectiveOp::ReduceScatter);
  sort_rows("expert_unsort");
}

void MoeLowering::shared_forward() {
  if (arch_.shared_ffn == 0) return;
  const std::int64_t tokens = shape_.tokens;
  tensor_.gather_sequence("shared_all_gather");
  linear_.dequantise("shared_up", arch_.ffn_inputs() * shared_ * arch_.hidden);
  build_.compute("shared_up_gemm", linear_.product(tokens, arch_.ffn_inputs() * shared_,
                                                   arch_.hidden, GemmPass::Forward));
  elementwise_.activation_forward("shared_activation", tokens * shared_);
  linear_.dequantise("shared_down", shared_ * arch_.hidden);
  build_.compute("shared_down_gemm",
                 linear_.product(tokens, arch_.hidden, shared_, GemmPass::Forward));
  tensor_.join_partial_sums("shared_join");
}

void MoeLowering::forward() {
  route();
  cast_rows("dispatch_cast");
  permute("permute");
  const bool told = options_.experts.places > 1 &&
                    options_.experts.settings.dispatcher != Dispatcher::AllGather &&
                    !options_.experts.settings.pad_to_capacity;
  if (told) {
    // Everyone tells everyone how many rows of each expert it has.
    const Call counts{
        .op = CollectiveOp::AllGather,
        .bytes = kFp32Bytes * arch_.experts * options_.experts.places,
        .dtype = DataType::Fp32,
        .algorithm = options_.experts.collectives.of(GroupKind::Expert, CollectiveOp::AllGather)};
    build_.wait_for(build_.collective(kExpertCountsOperation, Stream::Expert, Slot::Expert, counts,
                                      {build_.last_compute()}));
  }
  const OpIndex dispatched =
      travel("dispatch", Way::ToExperts, options_.experts.settings.dispatch_precision);
  if (options_.experts.settings.overlap_shared) shared_forward();
  build_.wait_for(dispatched);
  experts_forward();
  build_.wait_for(travel("combine", Way::ToTokens, shape_.dtype));
  permute("unpermute");
  gather_tokens("expert_output_all_gather", arch_.hidden * shape_.element);
  if (!options_.experts.settings.overlap_shared) shared_forward();
  if (arch_.shared_ffn > 0) {
    elementwise_.memory_bound("shared_add", MemoryBoundKind::Elementwise,
                              3 * shape_.element * shape_.local_tokens * arch_.hidden);
  }
}

void MoeLowering::experts_backward(BackwardPart part) {
  const bool full = part == BackwardPart::Full && !linear_.frozen();
  const std::int64_t columns = arch_.ffn_inputs() * inner_;
  sort_rows("expert_unsort_backward");
  join_expert_tensor("expert_tensor_gradient_all_gather", CollectiveOp::AllGather);
  add_expert_biases_backward();
  if (options_.again.expert_activation && !options_.again.experts) {
    tools_.repeat([this] { activate_experts(); });
  }
  if (options_.experts.settings.dispatch_precision != DataType::Fp8)
    quantise_rows("expert_down_quantise", arch_.hidden);
  grouped("expert_down_dgrad", inner_, arch_.hidden, GemmPass::DataGrad);
  if (full) down_ = grouped("expert_down_wgrad", arch_.hidden, inner_, GemmPass::WeightGrad);
  activate_experts_backward();
  if (!fused()) quantise_rows("expert_up_gradient_quantise", columns);
  grouped("expert_up_dgrad", arch_.hidden, columns, GemmPass::DataGrad);
  if (full) up_ = grouped("expert_up_wgrad", columns, arch_.hidden, GemmPass::WeightGrad);
  join_expert_tensor("expert_tensor_gradient_reduce_scatter", CollectiveOp::ReduceScatter);
  sort_rows("expert_sort_backward");
}

void MoeLowering::shared_backward(BackwardPart part) {
  if (arch_.shared_ffn == 0) return;
  if (options_.again.shared_experts && !options_.again.experts) {
    tools_.repeat([this] { shared_forward(); });
  }
  shared_down_ = tensor_.row_backward("shared_down", shared_, part);
  elementwise_.activation_backward("shared_activation_backward", shape_.tokens * shared_);
  shared_up_ = tensor_.column_backward("shared_up", arch_.ffn_inputs() * shared_, part);
}

std::vector<ReadyGradient> MoeLowering::backward(BackwardPart part) {
  if (part == BackwardPart::Weight) return weight_backward();
  if (options_.again.norms) tools_.repeat([this] { elementwise_.norm_forward("ffn_norm"); });
  if (options_.again.experts) tools_.repeat([this] { forward(); });
  cast_rows("combine_gradient_cast");
  permute("unpermute_backward");
  const OpIndex combined =
      travel("combine_backward", Way::ToExperts, options_.experts.settings.dispatch_precision);
  if (options_.experts.settings.overlap_shared) shared_backward(part);
  build_.wait_for(combined);
  experts_backward(part);
  build_.wait_for(travel("dispatch_backward", Way::ToTokens, shape_.dtype));
  permute("permute_backward");
  gather_tokens("expert_input_gradient_all_gather",
                arch_.hidden * shape_.element + kFp32Bytes * arch_.experts_per_token);
  if (!options_.experts.settings.overlap_shared) shared_backward(part);
  elementwise_.memory_bound(
      "router_top_k_backward", MemoryBoundKind::Softmax,
      shape_.local_tokens * (shape_.element + 2 * kFp32Bytes) * arch_.experts);
  build_.compute("router_dgrad", router_product(shape_.local_tokens, arch_.hidden, arch_.experts,
                                                GemmPass::DataGrad));
  if (part == BackwardPart::Full && !linear_.frozen())
    router_ = build_.compute(
        "router_wgrad",
        router_product(arch_.experts, arch_.hidden, shape_.local_tokens, GemmPass::WeightGrad));
  return final_gradients();
}

std::vector<ReadyGradient> MoeLowering::weight_backward() {
  if (linear_.frozen()) return final_gradients();
  down_ = grouped("expert_down_wgrad", arch_.hidden, inner_, GemmPass::WeightGrad);
  up_ = grouped("expert_up_wgrad", arch_.ffn_inputs() * inner_, arch_.hidden, GemmPass::WeightGrad);
  if (arch_.shared_ffn > 0) {
    shared_down_ = tensor_.row_backward("shared_down", shared_, BackwardPart::Weight);
    shared_up_ =
        tensor_.column_backward("shared_up", arch_.ffn_inputs() * shared_, BackwardPart::Weight);
  }
  router_ = build_.compute(
      "router_wgrad",
      router_product(arch_.experts, arch_.hidden, shape_.local_tokens, GemmPass::WeightGrad));
  return final_gradients();
}

// In the order of layer_entries (entries.hpp). Beside adapters nothing of it is trained: the
// entries are empty, and final with whatever came last.
std::vector<ReadyGradient> MoeLowering::final_gradients() const {
  std::vector<ReadyGradient> ready;
  const bool frozen = linear_.frozen();
  const OpIndex last = build_.last_compute();
  if (!frozen) {
    ready.push_back({.op = down_, .expert = true});
    ready.push_back({.op = up_, .expert = true});
  }
  if (arch_.shared_ffn > 0) {
    ready.push_back({.op = frozen ? last : shared_down_});
    ready.push_back({.op = frozen ? last : shared_up_});
  }
  ready.push_back({.op = frozen ? last : router_});
  return ready;
}

LayerBlockKind experts_block() {
  return {.name = "experts",
          .half = LayerHalf::FeedForward,
          .is_at = [](const Architecture& a,
                      std::int64_t layer) { return a.kind_of(layer) == LayerKind::Moe; },
          .forward =
              [](LayerTools& tools) {
                MoeLowering(tools).forward();
                tools.elementwise.residual_forward("ffn");
              },
          .backward =
              [](LayerTools& tools, BackwardPart part) {
                std::vector<ReadyGradient> ready = tools.elementwise.residual_backward("ffn", part);
                const auto own = MoeLowering(tools).backward(part);
                ready.insert(ready.end(), own.begin(), own.end());
                return ready;
              }};
}

}  // namespace trainyard
