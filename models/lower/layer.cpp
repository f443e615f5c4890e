#include "models/lower/layer.hpp"

#include "models/architecture/shard.hpp"
#include "models/lower/moe.hpp"
#include "models/lower/tensor_pipeline.hpp"
#include "models/recompute.hpp"

namespace trainyard {

StepShape::StepShape(const TrainingPlan& plan, std::int64_t place) : ring_place(place) {
  const Parallelism& p = plan.parallelism;
  tokens = plan.training.micro_batch_size * (plan.training.sequence_length / p.context);
  tensor = p.tensor;
  sequence_parallel = p.sequence_parallel && tensor > 1;
  local_tokens = sequence_parallel ? tokens / tensor : tokens;
  dtype = plan.training.precision;
  element = static_cast<std::int64_t>(element_bytes(dtype));
  gradient = static_cast<std::int64_t>(element_bytes(plan.training.gradient_precision));
  message = tokens * plan.architecture.hidden * element;
  const bool split = sequence_parallel || (p.scatter_gather && tensor > 1);
  boundary = split ? message / tensor : message;
}

LayerLowering::LayerLowering(const TrainingPlan& plan, const StepShape& shape,
                             ProgramBuilder& build)
    : plan_(plan),
      arch_(plan.architecture),
      shape_(shape),
      build_(build),
      adapters_(layer_adapters(plan.architecture, plan.training, shape.tensor)),
      again_(plan.training.recompute == Recompute::Selective ? recompute_modules(plan.training)
                                                             : RecomputeModules{.core = false}) {}

Gemm LayerLowering::product(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const {
  // Sharded weights have no gradient beside them to add to: autograd writes a new one.
  const bool accumulates = pass == GemmPass::WeightGrad &&
                           plan_.training.gradient_precision == DataType::Fp32 &&
                           plan_.parallelism.zero_stage < 3 && !plan_.gradient_passes.accumulate;
  return {.m = m,
          .n = n,
          .k = k,
          .batch = 1,
          .dtype = plan_.recipe.products.value_or(shape_.dtype),
          .pass = pass,
          .accumulate_fp32 = accumulates};
}

// The products of unfused attention: one for each sequence and head of the rank.
Gemm LayerLowering::head_gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmPass pass) const {
  return {.m = m,
          .n = n,
          .k = k,
          .batch = score_matrices(),
          .dtype = shape_.dtype,
          .pass = pass,
          .accumulate_fp32 = false};
}

OpIndex LayerLowering::tensor_collective(CollectiveOp op, std::int64_t bytes, std::string_view name,
                                         bool blocking, std::optional<DataType> wire) {
  if (shape_.tensor == 1) return kNone;
  const Call call{.op = op,
                  .bytes = bytes,
                  .dtype = wire.value_or(shape_.dtype),
                  .algorithm = plan_.collectives.of(GroupKind::Tensor, op)};
  if (op == CollectiveOp::ReduceScatter) copy_sequence(name, bytes);
  const OpIndex index =
      build_.collective(name, Stream::Tensor, Slot::Tensor, call, {build_.last_compute()});
  if (!blocking) return index;
  build_.wait_for(index);
  if (op == CollectiveOp::AllGather) copy_sequence(name, bytes);
  return index;
}

void LayerLowering::join_partial_sums(std::string_view name) {
  const CollectiveOp op =
      shape_.sequence_parallel ? CollectiveOp::ReduceScatter : CollectiveOp::AllReduce;
  tensor_collective(op, shape_.message, name, true);
}

void LayerLowering::gather_sequence(std::string_view name) {
  if (shape_.sequence_parallel)
    tensor_collective(CollectiveOp::AllGather, shape_.message, name, true);
}

OpIndex LayerLowering::gather_operand(std::string_view name, DataType product, bool blocking) {
  if (!shape_.sequence_parallel) return kNone;
  const bool narrow = product == plan_.recipe.products && plan_.recipe.sequence_wire.has_value();
  if (!narrow) return tensor_collective(CollectiveOp::AllGather, shape_.message, name, blocking);
  return tensor_collective(CollectiveOp::AllGather, wire_bytes(), name, blocking,
                           *plan_.recipe.sequence_wire);
}

// Of all rows of an operand as they are gathered.
std::int64_t LayerLowering::wire_bytes() const {
  const DataType wire = plan_.recipe.sequence_wire.value_or(shape_.dtype);
  return shape_.message / shape_.element * static_cast<std::int64_t>(element_bytes(wire));
}

bool LayerLowering::chunked() const {
  return plan_.parallelism.chunked_tensor && shape_.sequence_parallel;
}

TensorPipeline LayerLowering::tensor_pipeline() const {
  return {shape_, build_, plan_.collectives.of(GroupKind::Tensor, CollectiveOp::SendRecv)};
}

void LayerLowering::column_forward(std::string_view gather, std::string_view name,
                                   const Gemm& product) {
  if (chunked()) {
    const bool narrow = product.dtype == plan_.recipe.products;
    tensor_pipeline().gather_then(name, product, narrow ? wire_bytes() : shape_.message);
    return;
  }
  gather_operand(gather, product.dtype, true);
  build_.compute(name, product);
}

void LayerLowering::row_forward(std::string_view join, std::string_view name, const Gemm& product) {
  if (chunked()) {
    tensor_pipeline().then_scatter(name, product);
    return;
  }
  build_.compute(name, product);
  join_partial_sums(join);
}

// Gathers an operand of a weight gradient that each rank keeps a part of. With overlap the caller
// waits for the result; without, this call does.
OpIndex LayerLowering::gather_kept(std::string_view layer, std::string_view operand) {
  const bool overlap = plan_.parallelism.overlap_tensor;
  const DataType type =
      layer == "head" ? shape_.dtype : plan_.recipe.products.value_or(shape_.dtype);
  const std::string name = std::string(layer).append(operand).append("_all_gather");
  const OpIndex gathered = gather_operand(name, type, !overlap);
  return overlap ? gathered : kNone;
}

OpIndex LayerLowering::gather_input(std::string_view layer) {
  return plan_.streaming.keeps_gathered ? kNone : gather_kept(layer, "_input");
}

OpIndex LayerLowering::gather_gradient(std::string_view layer) {
  return gather_kept(layer, "_gradient");
}

OpIndex LayerLowering::column_wgrad(std::string_view name, std::int64_t outputs) {
  if (frozen()) return adapters_wgrad(name);
  Gemm wgrad = product(outputs, arch_.hidden, shape_.tokens, GemmPass::WeightGrad);
  if (name == "head") wgrad.dtype = shape_.dtype;
  return build_.compute(std::string(name) + "_wgrad", wgrad);
}

OpIndex LayerLowering::row_wgrad(std::string_view name, std::int64_t inputs) {
  if (frozen()) return adapters_wgrad(name);
  return build_.compute(std::string(name) + "_wgrad",
                        product(arch_.hidden, inputs, shape_.tokens, GemmPass::WeightGrad));
}

OpIndex LayerLowering::column_backward(std::string_view name, std::int64_t outputs,
                                       BackwardPart part) {
  if (part == BackwardPart::Weight) {
    build_.wait_for(gather_input(name));
    return column_wgrad(name, outputs);
  }
  const std::string text(name);
  const bool overlap = plan_.parallelism.overlap_tensor;
  Gemm dgrad = product(shape_.tokens, arch_.hidden, outputs, GemmPass::DataGrad);
  if (name == "head") dgrad.dtype = shape_.dtype;
  const OpIndex gathered = part == BackwardPart::Full ? gather_input(name) : kNone;
  if (name != "head") prepare(name, arch_.hidden * outputs, shape_.tokens * outputs);
  build_.compute(text + "_dgrad", dgrad);
  adapters_dgrad(name);
  join_input_gradients(name);
  const CollectiveOp op =
      shape_.sequence_parallel ? CollectiveOp::ReduceScatter : CollectiveOp::AllReduce;
  const OpIndex reduced = tensor_collective(
      op, shape_.message, text + "_dgrad_" + std::string(to_string(op)), !overlap);
  build_.wait_for(gathered);
  const OpIndex wgrad = part == BackwardPart::Full ? column_wgrad(name, outputs) : kNone;
  if (overlap) build_.wait_for(reduced);
  return wgrad;
}

OpIndex LayerLowering::row_backward(std::string_view name, std::int64_t inputs, BackwardPart part) {
  if (part == BackwardPart::Weight) {
    build_.wait_for(gather_gradient(name));
    return row_wgrad(name, inputs);
  }
  const std::string text(name);
  prepare(name, arch_.hidden * inputs, shape_.tokens * arch_.hidden, Rows::Gathered);
  column_forward(text + "_gradient_all_gather", text + "_dgrad",
                 product(shape_.tokens, inputs, arch_.hidden, GemmPass::DataGrad));
  adapters_dgrad(name);
  return part == BackwardPart::Full ? row_wgrad(name, inputs) : kNone;
}

void LayerLowering::write_forward(const LayerParts& parts) {
  if (parts.attention_norm) norm_forward("attention_norm");
  if (parts.attention) {
    arch_.latent() ? latent_attention_forward() : attention_forward();
    residual_forward("attention");
  }
  if (parts.ffn_norm) norm_forward("ffn_norm");
  if (!parts.ffn) return;
  if (has_experts()) {
    MoeLowering(plan_, shape_, build_, *this).forward();
    residual_forward("ffn");
  } else {
    ffn_forward();
  }
}

std::int64_t LayerLowering::all_heads_bytes() const {
  return shape_.tokens * (arch_.query_width() + 2 * arch_.kv_width()) * shape_.element;
}

void LayerLowering::gather_heads() {
  if (replicates_kv_heads(arch_, shape_.tensor))
    tensor_collective(CollectiveOp::AllGather, all_heads_bytes(), "qkv_heads_all_gather", true);
}

void LayerLowering::scatter_head_gradients() {
  if (replicates_kv_heads(arch_, shape_.tensor))
    tensor_collective(CollectiveOp::ReduceScatter, all_heads_bytes(), "qkv_heads_reduce_scatter",
                      true);
}

void LayerLowering::attention_forward() {
  const std::int64_t qkv_width = arch_.query_width() + 2 * arch_.kv_width();
  prepare("qkv", arch_.hidden * qkv_width / shape_.tensor, shape_.tokens * arch_.hidden,
          Rows::Gathered);
  column_forward(
      "attention_all_gather", "qkv_gemm",
      product(shape_.tokens, qkv_width / shape_.tensor, arch_.hidden, GemmPass::Forward));
  adapters_forward("qkv");
  gather_heads();
  head_norms("qk_norm", Way::Forward);
  rotary("rope", Way::Forward);
  repeat_heads("repeat_heads");
  attention_core_forward();
  prepare("projection", arch_.hidden * arch_.query_width() / shape_.tensor,
          shape_.tokens * arch_.query_width() / shape_.tensor);
  adapters_forward("projection");
  row_forward(
      "attention_join", "projection_gemm",
      product(shape_.tokens, arch_.hidden, arch_.query_width() / shape_.tensor, GemmPass::Forward));
}

// All of a layer but attention and the products whose outputs were kept: queries, values, gate,
// down. What is reduced over the tensor ranks was kept, what is gathered is gathered again.
void LayerLowering::second_products_again() {
  const std::int64_t keys = arch_.kv_width() / shape_.tensor;
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  norm_forward("attention_norm");
  column_forward("attention_all_gather", "key_gemm",
                 product(shape_.tokens, keys, arch_.hidden, GemmPass::Forward));
  gather_heads();
  head_norms("qk_norm", Way::Forward);
  rotary("rope", Way::Forward);
  repeat_heads("repeat_heads");
  build_.compute(
      "projection_gemm",
      product(shape_.tokens, arch_.hidden, arch_.query_width() / shape_.tensor, GemmPass::Forward));
  residual_forward("attention");
  norm_forward("ffn_norm");
  column_forward("ffn_all_gather", "ffn_up_gemm",
                 product(shape_.tokens, local_ffn, arch_.hidden, GemmPass::Forward));
  activation_forward("ffn_activation", shape_.tokens * local_ffn);
}

// Of a layer that is checkpointed alone.
bool LayerLowering::stops_early() const {
  const Training& t = plan_.training;
  const bool alone = t.recompute_method != "uniform" || t.recompute_num_layers == 1;
  return plan_.streaming.recompute_stops_early && t.recompute == Recompute::Full && alone &&
         build_.tags().part == StepPart::Recompute;
}

void LayerLowering::ffn_forward() {
  ffn_up_forward();
  if (stops_early() && !arch_.post_norms) return;
  ffn_down_forward();
  if (!stops_early()) return residual_forward("ffn");
  norm_forward("ffn_post_norm");
}

void LayerLowering::ffn_matrices_forward() {
  ffn_up_forward();
  ffn_down_forward();
}

void LayerLowering::ffn_up_forward() {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  prepare("ffn_up", arch_.ffn_inputs() * arch_.hidden * local_ffn, shape_.tokens * arch_.hidden,
          Rows::Gathered);
  column_forward(
      "ffn_all_gather", "ffn_up_gemm",
      product(shape_.tokens, arch_.ffn_inputs() * local_ffn, arch_.hidden, GemmPass::Forward));
  adapters_forward("ffn_up");
  activation_forward("ffn_activation", shape_.tokens * local_ffn);
}

void LayerLowering::ffn_down_forward() {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  prepare("ffn_down", arch_.hidden * local_ffn, shape_.tokens * local_ffn);
  adapters_forward("ffn_down");
  row_forward("ffn_join", "ffn_down_gemm",
              product(shape_.tokens, arch_.hidden, local_ffn, GemmPass::Forward));
}

bool LayerLowering::has_experts() const {
  return arch_.kind_of(build_.tags().layer) == LayerKind::Moe;
}

void LayerLowering::write_backward(BackwardPart part, std::vector<ReadyGradient>* ready,
                                   const LayerParts& parts) {
  const bool weights = part == BackwardPart::Weight;
  if (parts.ffn) residual_backward("ffn", part, ready);
  if (parts.ffn && has_experts()) {
    MoeLowering(plan_, shape_, build_, *this).backward(part, ready);
  } else if (parts.ffn) {
    weights ? ffn_weights(ready) : ffn_backward(part, ready);
  }
  if (parts.ffn_norm) norm_back("ffn_norm_backward", {part, parts.ffn}, ready);
  if (parts.attention) residual_backward("attention", part, ready);
  if (parts.attention && arch_.latent()) {
    latent_attention_backward(part, ready);
  } else if (parts.attention) {
    weights ? attention_weights(ready) : attention_backward(part, ready);
  }
  if (parts.attention_norm) norm_back("attention_norm_backward", {part, parts.attention}, ready);
}

// The gradient of a norm was final with the input gradients: those are all done before any weight
// part.
void LayerLowering::norm_back(std::string_view name, const NormBack& norm,
                              std::vector<ReadyGradient>* ready) {
  OpIndex op = build_.last_compute();
  if (norm.part != BackwardPart::Weight) {
    StreamingPass pass = plan_.streaming.norm(arch_).backward;
    if (norm.before_block) pass.narrow += 3;
    op = stream(name, MemoryBoundKind::Norm, pass, shape_.local_tokens * arch_.hidden);
  }
  if (ready != nullptr) ready->push_back({.op = op});
}

void LayerLowering::ffn_weights(std::vector<ReadyGradient>* ready) {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  const OpIndex gradient = gather_gradient("ffn_down");
  const OpIndex input = gather_input("ffn_up");
  build_.wait_for(gradient);
  const OpIndex down = row_wgrad("ffn_down", local_ffn);
  build_.wait_for(input);
  const OpIndex up = column_wgrad("ffn_up", arch_.ffn_inputs() * local_ffn);
  if (ready == nullptr) return;
  for (const OpIndex op : {down, up}) ready->push_back({.op = op});
}

void LayerLowering::attention_weights(std::vector<ReadyGradient>* ready) {
  const std::int64_t qkv_width = arch_.query_width() + 2 * arch_.kv_width();
  const OpIndex gradient = gather_gradient("projection");
  const OpIndex input = gather_input("qkv");
  build_.wait_for(gradient);
  const OpIndex projection = row_wgrad("projection", arch_.query_width() / shape_.tensor);
  build_.wait_for(input);
  const OpIndex qkv = column_wgrad("qkv", qkv_width / shape_.tensor);
  if (ready == nullptr) return;
  for (const OpIndex op : {projection, qkv}) ready->push_back({.op = op});
}

void LayerLowering::ffn_backward(BackwardPart part, std::vector<ReadyGradient>* ready) {
  const std::int64_t local_ffn = arch_.ffn / shape_.tensor;
  if (again_.second_products) repeat([this] { second_products_again(); });
  if (again_.norms) repeat([this] { norm_forward("ffn_norm"); });
  if (again_.feed_forward) repeat([this] { ffn_matrices_forward(); });
  const OpIndex down = row_backward("ffn_down", local_ffn, part);
  activation_backward("ffn_activation_backward", shape_.tokens * local_ffn);
  const OpIndex up = column_backward("ffn_up", arch_.ffn_inputs() * local_ffn, part);
  if (ready == nullptr) return;
  for (const OpIndex op : {down, up}) ready->push_back({.op = op});
}

void LayerLowering::attention_backward(BackwardPart part, std::vector<ReadyGradient>* ready) {
  const std::int64_t qkv_width = arch_.query_width() + 2 * arch_.kv_width();
  const OpIndex projection = row_backward("projection", arch_.query_width() / shape_.tensor, part);
  attention_core_backward();
  repeat_heads("repeat_heads_backward");
  rotary("rope_backward", Way::Backward);
  head_norms("qk_norm_backward", Way::Backward);
  join_attention_gradients();
  scatter_head_gradients();
  if (again_.norms) repeat([this] { norm_forward("attention_norm"); });
  const OpIndex qkv = column_backward("qkv", qkv_width / shape_.tensor, part);
  if (ready == nullptr) return;
  for (const OpIndex op : {projection, qkv}) ready->push_back({.op = op});
}

}  // namespace trainyard
