#include "scenarios/import/trace_builder.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/json_parse.hpp"
#include "sim/base/letters.hpp"

namespace trainyard {

namespace {

// A tensor is a list of numbers. Throws nlohmann's exception for anything else.
std::vector<TensorDims> tensors_of(const nlohmann::ordered_json& input) {
  if (!input.is_array() || input.empty()) return {};
  if (input.front().is_number()) return {input.get<TensorDims>()};
  std::vector<TensorDims> tensors;
  for (const nlohmann::ordered_json& tensor : input) tensors.push_back(tensor.get<TensorDims>());
  return tensors;
}

std::vector<std::string> texts_of(const std::string& list) {
  std::vector<std::string> texts;
  if (list.empty()) return texts;
  for (const nlohmann::ordered_json& entry : parse_unchecked_json(list))
    texts.push_back(entry.is_string() ? entry.get<std::string>() : entry.dump());
  return texts;
}

std::string letters_of(std::string_view name) {
  std::string letters = lower_case(name);
  std::erase_if(letters, [](char letter) { return !is_letter(letter); });
  return letters;
}

constexpr std::array<std::pair<std::string_view, CollectiveOp>, 10> kCollectiveParts{{
    {"reducescatter", CollectiveOp::ReduceScatter},
    {"allreduce", CollectiveOp::AllReduce},
    {"allgather", CollectiveOp::AllGather},
    {"alltoall", CollectiveOp::AllToAll},
    {"broadcast", CollectiveOp::Broadcast},
    {"sendrecv", CollectiveOp::SendRecv},
    {"send", CollectiveOp::SendRecv},
    {"recv", CollectiveOp::SendRecv},
    {"bcast", CollectiveOp::Broadcast},
    {"reduce", CollectiveOp::Reduce},
}};

constexpr std::array<std::pair<std::string_view, ElementType>, 26> kElementTypes{{
    {"float", {"float", 4}},         {"f32", {"float", 4}},          {"cfloat", {"float", 4}},
    {"fp32", {"float", 4}},          {"fp8", {"f8e4m3", 1}},         {"half", {"half", 2}},
    {"f8e4m3", {"f8e4m3", 1}},       {"f8e5m2", {"f8e5m2", 1}},      {"f16", {"half", 2}},
    {"chalf", {"half", 2}},          {"fp16", {"half", 2}},          {"bfloat16", {"bfloat16", 2}},
    {"bf16", {"bfloat16", 2}},       {"cbfloat16", {"bfloat16", 2}}, {"double", {"double", 8}},
    {"f64", {"double", 8}},          {"long", {"int64", 8}},         {"longint", {"int64", 8}},
    {"int", {"int32", 4}},           {"bool", {"uint8", 1}},         {"byte", {"uint8", 1}},
    {"unsignedchar", {"uint8", 1}},  {"char", {"int8", 1}},          {"signedchar", {"int8", 1}},
    {"float8e4m3fn", {"f8e4m3", 1}}, {"float8e5m2", {"f8e5m2", 1}},
}};

// Operations whose elementwise kernels belong to another kind than their names tell.
constexpr std::array<std::pair<std::string_view, OperationKind>, 7> kOperationParts{{
    {"Optimizer.step", OperationKind::Optimizer},
    {"_fused_adam", OperationKind::Optimizer},
    {"clip_grad", OperationKind::Optimizer},
    {"embedding", OperationKind::EmbeddingLoss},
    {"cross_entropy", OperationKind::EmbeddingLoss},
    {"nll_loss", OperationKind::EmbeddingLoss},
    {"log_softmax", OperationKind::EmbeddingLoss},
}};

}  // namespace

std::int64_t call_elements(CollectiveOp op, std::int64_t in, std::int64_t out) {
  return op == CollectiveOp::AllGather ? std::max(in, out) : in;
}

std::optional<CollectiveOp> collective_in_name(std::string_view name) {
  const std::string letters = letters_of(name);
  for (const auto& [part, op] : kCollectiveParts) {
    if (letters.find(part) != std::string::npos) return op;
  }
  return std::nullopt;
}

ElementType element_type(std::string_view name) {
  std::string word = lower_case(name);
  std::erase_if(word, [](char letter) { return !is_letter_or_digit(letter); });
  if (word.starts_with("c10")) word.erase(0, 3);
  const auto found = std::ranges::find(kElementTypes, std::string_view(word),
                                       &std::pair<std::string_view, ElementType>::first);
  return found == kElementTypes.end() ? ElementType{} : found->second;
}

std::uint32_t TraceBuilder::name(std::string_view text) {
  const auto next = static_cast<std::uint32_t>(trace_.names.size());
  const auto [found, fresh] = names_.try_emplace(std::string(text), next);
  if (fresh) trace_.names.emplace_back(text);
  return found->second;
}

std::uint32_t TraceBuilder::shape(const std::string& dims, const std::string& types,
                                  const std::string& scalars) {
  if (dims.empty()) return kAbsent;
  const std::string key = dims + '\n' + types + '\n' + scalars;
  if (const auto found = shapes_.find(key); found != shapes_.end()) return found->second;
  std::uint32_t index = kAbsent;
  try {
    TracedShape shape;
    for (const nlohmann::ordered_json& input : parse_unchecked_json(dims))
      shape.inputs.push_back(tensors_of(input));
    shape.types = texts_of(types);
    shape.scalars = texts_of(scalars);
    index = static_cast<std::uint32_t>(trace_.shapes.size());
    trace_.shapes.push_back(std::move(shape));
  } catch (const nlohmann::ordered_json::exception&) {
    // Not a list of dimensions: the operation counts as one without a shape, which is reported.
  }
  shapes_.emplace(key, index);
  return index;
}

std::uint32_t TraceBuilder::call(TracedCall call) {
  trace_.calls.push_back(std::move(call));
  return static_cast<std::uint32_t>(trace_.calls.size() - 1);
}

void TraceBuilder::launch(std::int64_t correlation, std::uint64_t lane, std::int64_t time_ns) {
  if (correlation != 0) launches_.try_emplace(correlation, Launch{lane, time_ns});
}

// Sets the parent of each operation: the innermost one of its lane whose time contains it. In the
// order of lanes and starts, longer ones first, a parent comes before its children. `open` holds
// the operations that contain the present one, the innermost last; those that end earlier than it
// are removed. Cost: O(n log n) for the sort.
void TraceBuilder::nest() {
  std::ranges::stable_sort(operations_, [](const OperationEvent& a, const OperationEvent& b) {
    if (a.lane != b.lane) return a.lane < b.lane;
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  trace_.operations.reserve(operations_.size());
  std::vector<std::uint32_t> open;
  for (std::uint32_t index = 0; index < operations_.size(); ++index) {
    const OperationEvent& event = operations_[index];
    const auto ended = [&](std::uint32_t outer) {
      return operations_[outer].lane != event.lane || operations_[outer].end_ns < event.end_ns;
    };
    while (!open.empty() && ended(open.back())) open.pop_back();
    trace_.operations.push_back({.name = event.name,
                                 .shape = event.shape,
                                 .parent = open.empty() ? kAbsent : open.back(),
                                 .sequence = event.sequence});
    open.push_back(index);
  }
}

// Returns the innermost operation of the launch's thread that runs at its time. It is the last one
// that began before, or the nearest around that one that has not ended.
std::uint32_t TraceBuilder::innermost(const Launch& launch) const {
  const auto after = std::ranges::upper_bound(
      operations_, std::pair(launch.lane, launch.time_ns), {},
      [](const OperationEvent& event) { return std::pair(event.lane, event.start_ns); });
  if (after == operations_.begin()) return kAbsent;
  auto index = static_cast<std::uint32_t>(after - operations_.begin() - 1);
  if (operations_[index].lane != launch.lane) return kAbsent;
  while (index != kAbsent && operations_[index].end_ns < launch.time_ns)
    index = trace_.operations[index].parent;
  return index;
}

void TraceBuilder::link_kernels() {
  std::unordered_map<std::int64_t, std::uint32_t> by_id;
  for (std::uint32_t index = 0; index < operations_.size(); ++index)
    if (operations_[index].external_id != 0)
      by_id.try_emplace(operations_[index].external_id, index);
  for (KernelEvent& event : kernels_) {
    TracedKernel& kernel = event.kernel;
    const auto named = by_id.find(event.external_id);
    const auto launch = launches_.find(event.correlation);
    if (event.external_id != 0 && named != by_id.end())
      kernel.operation = named->second;
    else if (launch != launches_.end())
      kernel.operation = innermost(launch->second);
    refine(kernel);
    trace_.kernels.push_back(kernel);
  }
}

// Completes a kernel by the operation that launched it: the collective of a NCCL kernel, and the
// kind of an elementwise kernel.
void TraceBuilder::refine(TracedKernel& kernel) {
  if (is_communication(kernel.kind)) {
    const std::uint32_t caller = trace_.enclosing(kernel.operation, [&](const auto& operation) {
      const auto index = static_cast<std::size_t>(&operation - trace_.operations.data());
      return operations_[index].call != kAbsent;
    });
    if (kernel.call == kAbsent && caller != kAbsent) kernel.call = operations_[caller].call;
    if (kernel.call == kAbsent) return;
    TracedCall& call = trace_.calls[kernel.call];
    // A kernel's name contains the operation that NCCL runs; only its messages have several uses.
    if (kernel.kind == OperationKind::SendRecv) kernel.kind = kind_of(call.op);
    if (call.dtype.empty())
      if (const auto dtype = dtype_in_name(trace_.names[kernel.name]))
        call.dtype = element_type(to_string(*dtype)).nccl_name;
    if (call.bytes == 0)
      call.bytes = call_elements(call.op, call.in_elements, call.out_elements) *
                   element_type(call.dtype).bytes;
    return;
  }
  if (kernel.kind != OperationKind::NormElementwise) return;
  (void)trace_.enclosing(kernel.operation, [&](const TracedOperation& operation) {
    for (const auto& [part, kind] : kOperationParts) {
      if (trace_.names[operation.name].find(part) == std::string::npos) continue;
      kernel.kind = kind;
      return true;
    }
    return false;
  });
}

GpuTrace TraceBuilder::finish() {
  nest();
  trace_.kernels.reserve(kernels_.size());
  link_kernels();
  std::ranges::stable_sort(trace_.kernels, {}, &TracedKernel::start_ns);
  std::ranges::stable_sort(trace_.steps, {}, &TracedStep::start_ns);
  return std::move(trace_);
}

}  // namespace trainyard
