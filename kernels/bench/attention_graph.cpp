#include "kernels/bench/attention_graph.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernels/bench/measured_profile.hpp"

namespace trainyard::bench {

namespace {

// cuDNN's backend interface describes everything by descriptors: they are created, their attributes
// are set, and they are finalised before use.
CudnnDescriptor make(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check(cudnnBackendCreateDescriptor(type, &made), "describing to cuDNN");
  return CudnnDescriptor(made);
}

void set_many(const CudnnDescriptor& of, cudnnBackendAttributeName_t name,
              cudnnBackendAttributeType_t type, std::size_t count, const void* values) {
  check(cudnnBackendSetAttribute(of.get(), name, type, static_cast<std::int64_t>(count), values),
        "describing to cuDNN");
}

template <class Value>
void set(const CudnnDescriptor& of, cudnnBackendAttributeName_t name,
         cudnnBackendAttributeType_t type, const Value& value) {
  set_many(of, name, type, 1, &value);
}

void link(const CudnnDescriptor& of, cudnnBackendAttributeName_t name,
          cudnnBackendDescriptor_t other) {
  set(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other);
}

void finish(const CudnnDescriptor& made) {
  check(cudnnBackendFinalize(made.get()), "describing to cuDNN");
}

std::vector<cudnnBackendDescriptor_t> pointers(const std::vector<CudnnDescriptor>& descriptors) {
  std::vector<cudnnBackendDescriptor_t> found;
  for (const CudnnDescriptor& descriptor : descriptors) found.push_back(descriptor.get());
  return found;
}

template <class Value>
Value attribute(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type) {
  Value value{};
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(of, name, type, 1, &count, &value), "asking cuDNN");
  return value;
}

}  // namespace

void check(cudnnStatus_t code, std::string_view doing) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> reason{};
  cudnnGetLastErrorString(reason.data(), reason.size());
  const std::string problem =
      fmt::format("{}: {} ({})", doing, cudnnGetErrorString(code), reason.data());
  // Codes from 3000 to 3999 are the kinds of "not supported".
  constexpr int thousand = 1000;
  if (code / thousand == CUDNN_STATUS_NOT_SUPPORTED / thousand) throw Unsupported(problem);
  throw RunError(problem);
}

CudnnHandle make_cudnn(cudaStream_t stream) {
  cudnnHandle_t made = nullptr;
  check(cudnnCreate(&made), "starting cuDNN");
  CudnnHandle handle(made);
  check(cudnnSetStream(made, stream), "choosing the stream");
  return handle;
}

CudnnDescriptor described_device(const std::string& json) {
  CudnnDescriptor device = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  set_many(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json.size(),
           json.data());
  finish(device);
  return device;
}

TensorShape packed(const std::array<std::int64_t, 4>& e) {
  return {e, {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1}};
}

// Extents are [batch, heads, positions, columns], but in memory the heads of one position are
// adjacent.
TensorShape heads_inside(const std::array<std::int64_t, 4>& e) {
  return {e, {e[1] * e[2] * e[3], e[3], e[1] * e[3], 1}};
}

TensorShape transposed(TensorShape shape) {
  std::swap(shape.extents[2], shape.extents[3]);
  std::swap(shape.strides[2], shape.strides[3]);
  return shape;
}

// How a tensor exists: in memory, as a constant of the plan, or, with neither flag, only within the
// fused kernel. `tiled` selects the order F16x16, in which cuDNN's backward kernels accumulate.
struct CudnnGraph::Kind {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool in_memory = false;
  bool number = false;
  bool tiled = false;
};

CudnnGraph::Tensor CudnnGraph::add(const TensorShape& shape, const Kind& kind) {
  constexpr std::int64_t alignment_bytes = 16;
  const auto id = static_cast<Tensor>(tensors_.size() + 1);
  CudnnDescriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, kind.type);
  set_many(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.extents.data());
  set_many(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape.strides.data());
  set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment_bytes);
  set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  // A virtual tensor has no memory: it exists only within the fused kernel.
  const bool virtual_tensor = !kind.in_memory && !kind.number;
  set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, virtual_tensor);
  set(made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, kind.number);
  if (kind.tiled)
    set(made, CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE,
        CUDNN_TENSOR_REORDERING_F16x16);
  finish(made);
  tensors_.push_back(std::move(made));
  return id;
}

CudnnGraph::Tensor CudnnGraph::memory(const TensorShape& shape) {
  return add(shape, {.type = stored_, .in_memory = true});
}
CudnnGraph::Tensor CudnnGraph::memory_fp32(const TensorShape& shape) {
  return add(shape, {.in_memory = true});
}
CudnnGraph::Tensor CudnnGraph::accumulator(const TensorShape& shape) {
  return add(shape, {.in_memory = true, .tiled = true});
}
CudnnGraph::Tensor CudnnGraph::number(float value) {
  const Tensor made = add(packed({1, 1, 1, 1}), {.number = true});
  numbers_[made] = value;
  return made;
}
CudnnGraph::Tensor CudnnGraph::inner(const TensorShape& shape) { return add(shape, {}); }
CudnnGraph::Tensor CudnnGraph::inner_stored(const TensorShape& shape) {
  return add(shape, {.type = stored_});
}
CudnnGraph::Tensor CudnnGraph::flags(const TensorShape& shape, cudnnDataType_t type) {
  return add(shape, {.type = type});
}

cudnnBackendDescriptor_t CudnnGraph::of(Tensor tensor) const {
  return tensors_.at(static_cast<std::size_t>(tensor - 1)).get();
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor into) {
  const CudnnDescriptor kind = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  set(kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finish(kind);
  CudnnDescriptor made = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  link(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
  link(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
  link(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(into));
  link(made, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind.get());
  finish(made);
  operations_.push_back(std::move(made));
}

// Operands of a pointwise operation; 0: none. `axis` is that of an index operation, `flag` that of
// a selection between x and y.
struct CudnnGraph::Operands {
  Tensor x = 0, y = 0, flag = 0, into = 0;
  std::int64_t axis = -1;
};

void CudnnGraph::pointwise_of(cudnnPointwiseMode_t mode, const Operands& operands) {
  const CudnnDescriptor kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  if (operands.axis >= 0) set(kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, operands.axis);
  finish(kind);
  CudnnDescriptor made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  link(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind.get());
  link(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(operands.x));
  if (operands.y != 0) link(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, of(operands.y));
  if (operands.flag != 0) link(made, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, of(operands.flag));
  link(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(operands.into));
  finish(made);
  operations_.push_back(std::move(made));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor into) {
  pointwise_of(mode, {.x = x, .into = into});
}
void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor x, Tensor y, Tensor into) {
  pointwise_of(mode, {.x = x, .y = y, .into = into});
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t operation, Tensor x, Tensor into) {
  const CudnnDescriptor kind = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  set(kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation);
  set(kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  finish(kind);
  CudnnDescriptor made = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  link(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
  link(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(into));
  link(made, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind.get());
  finish(made);
  operations_.push_back(std::move(made));
}

void CudnnGraph::transpose(Tensor x, Tensor into) {
  CudnnDescriptor made = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  link(made, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
  link(made, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(into));
  finish(made);
  operations_.push_back(std::move(made));
}

CudnnGraph::Tensor CudnnGraph::causal(Tensor x, const TensorShape& shape) {
  // exp of this value is zero, and it stays finite in fp32 when scores are subtracted from it.
  constexpr float far_below = -1e30F;
  constexpr std::int64_t rows = 2, columns = 3;
  const Tensor row = flags(shape, CUDNN_DATA_INT32);
  const Tensor column = flags(shape, CUDNN_DATA_INT32);
  const Tensor kept = flags(shape, CUDNN_DATA_BOOLEAN);
  const Tensor masked = inner(shape);
  pointwise_of(CUDNN_POINTWISE_GEN_INDEX, {.x = x, .into = row, .axis = rows});
  pointwise_of(CUDNN_POINTWISE_GEN_INDEX, {.x = x, .into = column, .axis = columns});
  pointwise(CUDNN_POINTWISE_CMP_GE, row, column, kept);
  pointwise_of(CUDNN_POINTWISE_BINARY_SELECT,
               {.x = x, .y = number(far_below), .flag = kept, .into = masked});
  return masked;
}

CudnnEngines::CudnnEngines(const CudnnGraph& graph, const CudnnTarget& target)
    : graph_(make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)) {
  const auto operations = pointers(graph.operations());
  if (target.handle != nullptr)
    set(graph_, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target.handle);
  set_many(graph_, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.size(),
           operations.data());
  finish(graph_);
  const CudnnDescriptor heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  link(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_.get());
  set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  if (target.device != nullptr) link(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target.device);
  finish(heuristic);
  // Two queries: the number of results, and then the results into descriptors that exist.
  std::int64_t offered = 0;
  check(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &offered, nullptr),
        "asking cuDNN for engines");
  for (std::int64_t i = 0; i < offered; ++i)
    configurations_.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  auto found = pointers(configurations_);
  std::int64_t able = 0;
  check(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, offered, &able, found.data()),
        "asking cuDNN for engines");
  configurations_.resize(static_cast<std::size_t>(able));
}

std::string CudnnEngines::name(std::size_t index) const {
  const CudnnDescriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t filled = engine.get();
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(configuration(index), CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &filled),
        "asking cuDNN for an engine");
  return fmt::format("engine {}", attribute<std::int64_t>(filled, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                                          CUDNN_TYPE_INT64));
}

CudnnPlan::CudnnPlan(const CudnnGraph& graph, cudnnHandle_t handle)
    : engines_(graph, {.handle = handle}),
      plan_(make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)),
      numbers_(graph.numbers()) {
  if (engines_.size() == 0) throw Unsupported("cuDNN has no engine for it on this GPU");
  // CUDNN_ATTR_EXECUTION_PLAN_HANDLE by its number. The name is deprecated in favour of described
  // devices, which older libraries do not have.
  constexpr auto plan_handle = static_cast<cudnnBackendAttributeName_t>(400);
  set(plan_, plan_handle, CUDNN_TYPE_HANDLE, handle);
  link(plan_, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines_.configuration(0));
  check(cudnnBackendFinalize(plan_.get()), "planning with cuDNN");
  workspace_bytes_ = attribute<std::int64_t>(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                             CUDNN_TYPE_INT64);
  engine_ = engines_.name(0);
}

void CudnnPlan::run(cudnnHandle_t handle, const std::map<CudnnGraph::Tensor, void*>& memory,
                    void* workspace) const {
  std::vector<std::int64_t> ids;
  std::vector<void*> places;
  for (const auto& [id, place] : memory) {
    ids.push_back(id);
    places.push_back(place);
  }
  // Constants are passed by the address of a host copy, which lives until the call returns.
  std::map<CudnnGraph::Tensor, float> numbers = numbers_;
  for (auto& [id, value] : numbers) {
    ids.push_back(id);
    places.push_back(&value);
  }
  const CudnnDescriptor pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set_many(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids.size(), ids.data());
  set_many(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, places.size(),
           places.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  finish(pack);
  check(cudnnBackendExecute(handle, plan_.get(), pack.get()), "running cuDNN's plan");
}

namespace {

using Tensor = CudnnGraph::Tensor;

cudnnDataType_t stored_type(DataType dtype) {
  return dtype == DataType::Fp16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

// Tensor shapes of one attention. Rows are queries; columns of scores are keys.
struct Shapes {
  explicit Shapes(const Attention& a)
      : q(heads_inside({a.batch, a.query_heads, a.query_length, a.head_dim_qk})),
        k(heads_inside({a.batch, a.kv_heads, a.kv_length, a.head_dim_qk})),
        v(heads_inside({a.batch, a.kv_heads, a.kv_length, a.head_dim_v})),
        result(heads_inside({a.batch, a.query_heads, a.query_length, a.head_dim_v})),
        scores(packed({a.batch, a.query_heads, a.query_length, a.kv_length})),
        row(packed({a.batch, a.query_heads, a.query_length, 1})),
        q_sum(packed({a.batch, a.query_heads, a.query_length, a.head_dim_qk})),
        k_shares(packed({a.batch, a.query_heads, a.kv_length, a.head_dim_qk})),
        v_shares(packed({a.batch, a.query_heads, a.kv_length, a.head_dim_v})) {}
  TensorShape q, k, v, result, scores, row, q_sum, k_shares, v_shares;
};

float scale_of(const Attention& a) { return 1.0F / std::sqrt(static_cast<float>(a.head_dim_qk)); }

// scale Q K^T, masked. `k` is the keys' memory with rows and columns exchanged.
Tensor scores_of(CudnnGraph& graph, const Attention& a, const Shapes& shapes, Tensor q, Tensor k) {
  const Tensor gemm = graph.inner(shapes.scores);
  const Tensor scaled = graph.inner(shapes.scores);
  graph.matmul(q, k, gemm);
  graph.pointwise(CUDNN_POINTWISE_MUL, gemm, graph.number(scale_of(a)), scaled);
  return a.causal ? graph.causal(scaled, shapes.scores) : scaled;
}

// Gradients of keys or values: directly into memory, or per query head and then summed.
void add_grouped(CudnnGraph& graph, Tensor a, Tensor b, Tensor shares, Tensor into) {
  graph.matmul(a, b, shares != 0 ? shares : into);
  if (shares != 0) graph.reduce(CUDNN_REDUCE_TENSOR_ADD, shares, into);
}

}  // namespace

// Returns the reason why this attention cannot be measured with cuDNN, or nothing.
std::optional<std::string> unfit_for_cudnn(const Attention& a) {
  if (a.dtype != DataType::Bf16 && a.dtype != DataType::Fp16)
    return "cuDNN is used for bf16 and fp16 only";
  if (a.kv_heads <= 0 || a.query_heads % a.kv_heads != 0)
    return "the query heads do not divide into groups of one key head each";
  if (a.causal && a.query_length != a.kv_length)
    return "a causal mask needs as many queries as keys here";
  const std::int64_t pairs =
      a.causal ? a.query_length * (a.query_length + 1) / 2 : a.query_length * a.kv_length;
  if (a.pairs != pairs) return "several documents in a sequence are not measured";
  constexpr std::int64_t columns = 8;  // of 2 bytes each: the 16 bytes of a load
  if (a.head_dim_qk % columns != 0 || a.head_dim_v % columns != 0)
    return "columns of a head must be divisible by 8";
  return std::nullopt;
}

// The softmax in the form that cuDNN's flash engines recognise: subtract the row's maximum, take
// exp, divide by the sum. The backward reads the logarithm of the sum.
ForwardAttention forward_attention(const Attention& a) {
  const Shapes shapes(a);
  CudnnGraph graph(stored_type(a.dtype));
  const Tensor q = graph.memory(shapes.q);
  const Tensor k = graph.memory(transposed(shapes.k));
  const Tensor v = graph.memory(shapes.v);
  const Tensor scores = scores_of(graph, a, shapes, q, k);
  const Tensor largest = graph.inner(shapes.row), below = graph.inner(shapes.scores);
  const Tensor exponential = graph.inner(shapes.scores), sum = graph.inner(shapes.row);
  const Tensor log = graph.inner(shapes.row), log_sum = graph.memory_fp32(shapes.row);
  const Tensor weights = graph.inner_stored(shapes.scores);
  const Tensor result = graph.memory(shapes.result);
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  graph.pointwise(CUDNN_POINTWISE_SUB, scores, largest, below);
  graph.pointwise(CUDNN_POINTWISE_EXP, below, exponential);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
  graph.pointwise(CUDNN_POINTWISE_LOG, sum, log);
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, log, log_sum);
  graph.pointwise(CUDNN_POINTWISE_DIV, exponential, sum, weights);
  graph.matmul(weights, v, result);
  return {std::move(graph), q, k, v, result, log_sum};
}

// With P the weights, dP = dO V^T and D the rows' sums of dO O: dS = P (dP - D), dV = P^T dO,
// dQ = scale dS K, dK = scale dS^T Q (Dao et al. 2022, arXiv 2205.14135, appendix B.4).
BackwardAttention backward_attention(const Attention& a) {
  const Shapes shapes(a);
  BackwardAttention made{.graph = CudnnGraph(stored_type(a.dtype))};
  CudnnGraph& graph = made.graph;
  made.q = graph.memory(shapes.q);
  made.k = graph.memory(transposed(shapes.k));
  made.v = graph.memory(transposed(shapes.v));
  made.result = graph.memory(shapes.result);
  made.result_gradient = graph.memory(shapes.result);
  made.log_sum = graph.memory_fp32(shapes.row);
  made.q_gradient = graph.memory(shapes.q);
  made.k_gradient = graph.memory(shapes.k);
  made.v_gradient = graph.memory(shapes.v);
  made.q_sum = graph.accumulator(shapes.q_sum);
  if (a.query_heads != a.kv_heads) {
    made.k_shares = graph.memory(shapes.k_shares);
    made.v_shares = graph.memory(shapes.v_shares);
  }
  // D: the sums over each row of dO O.
  const Tensor gemms = graph.inner(shapes.result), sums = graph.inner(shapes.row);
  graph.pointwise(CUDNN_POINTWISE_MUL, made.result_gradient, made.result, gemms);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, gemms, sums);

  // P from the stored log sums, and dV = P^T dO.
  const Tensor scores = scores_of(graph, a, shapes, made.q, made.k);
  const Tensor below = graph.inner(shapes.scores), weights = graph.inner_stored(shapes.scores);
  const Tensor weights_turned = graph.inner_stored(transposed(shapes.scores));
  graph.pointwise(CUDNN_POINTWISE_SUB, scores, made.log_sum, below);
  graph.pointwise(CUDNN_POINTWISE_EXP, below, weights);
  graph.transpose(weights, weights_turned);
  add_grouped(graph, weights_turned, made.result_gradient, made.v_shares, made.v_gradient);

  // dP = dO V^T, and scale dS = scale P (dP - D).
  const Tensor weight_gradient = graph.inner(shapes.scores), centred = graph.inner(shapes.scores);
  const Tensor unscaled = graph.inner(shapes.scores), gradient = graph.inner_stored(shapes.scores);
  graph.matmul(made.result_gradient, made.v, weight_gradient);
  graph.pointwise(CUDNN_POINTWISE_SUB, weight_gradient, sums, centred);
  graph.pointwise(CUDNN_POINTWISE_MUL, centred, weights, unscaled);
  graph.pointwise(CUDNN_POINTWISE_MUL, unscaled, graph.number(scale_of(a)), gradient);

  // dQ from dS K, accumulated in fp32, and dK = dS^T Q.
  // `made.k` describes K^T, which the scores need. dS K needs K itself, so it is exchanged back
  // within the kernel.
  const Tensor keys = graph.inner_stored(shapes.k);
  const Tensor gradient_turned = graph.inner_stored(transposed(shapes.scores));
  graph.transpose(made.k, keys);
  graph.matmul(gradient, keys, made.q_sum);
  // Copies the fp32 sum into the type of the operands.
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, made.q_sum, made.q_gradient);
  graph.transpose(gradient, gradient_turned);
  add_grouped(graph, gradient_turned, made.q, made.k_shares, made.k_gradient);
  return made;
}

}  // namespace trainyard::bench
