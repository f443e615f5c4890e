#include "kernels/bench/task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <tuple>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/workload/kernel_json.hpp"

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;

struct TextOf {
  // "experts rows256x8 n4096 k7168 bf16 forward per_expert", or the rows of each expert:
  // "rows300,212".
  std::string operator()(const GroupedGemm& gemm) const {
    const bool even = !gemm.rows.empty() && std::ranges::count(gemm.rows, gemm.rows.front()) ==
                                                static_cast<std::ptrdiff_t>(gemm.rows.size());
    const std::string rows = even ? fmt::format("{}x{}", gemm.rows.front(), gemm.rows.size())
                                  : fmt::format("{}", fmt::join(gemm.rows, ","));
    return fmt::format("experts rows{} n{} k{} {} {}{}{}", rows, gemm.n, gemm.k,
                       to_string(gemm.dtype), to_string(gemm.pass),
                       gemm.accumulate_fp32 ? " accumulate_fp32" : "",
                       gemm.per_expert ? " per_expert" : "");
  }
  std::string operator()(const Interference& task) const {
    return fmt::format("interference sms{} {}", task.sms, to_text(Kernel{task.gemm}));
  }
  std::string operator()(const FusedGemm& task) const {
    return fmt::format("fused {} {}", to_string(task.epilogue), to_text(Kernel{task.gemm}));
  }
  std::string operator()(const UnfusedAttention& task) const {
    return "unfused " + to_text(Kernel{task.attention});
  }
  template <class Same>
  std::string operator()(const Same& kernel) const {
    return to_text(Kernel{kernel});
  }
  std::string operator()(const RowKernel& kernel) const {
    return fmt::format("{} rows{} columns{}", to_string(kernel.operation), kernel.rows,
                       kernel.columns);
  }
  std::string operator()(const Launches& launches) const {
    return fmt::format("launch {} count{}", to_string(launches.style), launches.count);
  }
};

struct JsonOf {
  Json operator()(const Interference& task) const {
    return {{"kind", "interference"}, {"sms", task.sms}, {"gemm", kernel_to_json(task.gemm)}};
  }
  Json operator()(const FusedGemm& task) const {
    return {{"kind", "fused_gemm"},
            {"epilogue", to_string(task.epilogue)},
            {"gemm", kernel_to_json(task.gemm)}};
  }
  Json operator()(const UnfusedAttention& task) const {
    return {{"kind", "unfused_attention"}, {"attention", kernel_to_json(task.attention)}};
  }
  template <class Same>
  Json operator()(const Same& kernel) const {
    return kernel_to_json(kernel);
  }
  Json operator()(const RowKernel& kernel) const {
    Json json = kernel_to_json(as_memory_bound(kernel));
    json["operation"] = to_string(kernel.operation);
    json["rows"] = kernel.rows;
    json["columns"] = kernel.columns;
    return json;
  }
  Json operator()(const Launches& launches) const {
    return {{"kind", "launch"}, {"style", to_string(launches.style)}, {"count", launches.count}};
  }
};

struct GroupOf {
  std::string_view operator()(const Gemm&) const { return "gemm"; }
  std::string_view operator()(const RowKernel&) const { return "memory"; }
  std::string_view operator()(const Copy&) const { return "copy"; }
  std::string_view operator()(const Launches&) const { return "launch"; }
  std::string_view operator()(const GroupedGemm&) const { return "experts"; }
  std::string_view operator()(const Attention&) const { return "attention"; }
  std::string_view operator()(const Interference&) const { return "interference"; }
  std::string_view operator()(const FusedGemm&) const { return "gemm"; }
  std::string_view operator()(const UnfusedAttention&) const { return "attention"; }
};

// task_to_json() also writes derived fields. They may be present, but must agree with the shape.
Task read_row_kernel(JsonObject& object) {
  const RowKernel kernel{.operation = read_enumerator(object, "operation", RowOperation::Adam),
                         .rows = object.integer("rows", {.least = 1}),
                         .columns = object.integer("columns", {.least = 1})};
  const Json written = JsonOf{}(kernel);
  for (const char* derived : {"what", "bytes", "launches"})
    if (object.has(derived) && object.raw(derived) != written[derived])
      object.report(derived, "is " + shown(object.raw(derived)) + ", which contradicts the shape",
                    "leave it out, or write " + shown(written[derived]));
  return kernel;
}

// The kernel under the key, which must be of that kind.
template <class Wanted>
Wanted read_part(JsonObject& object, const std::string& kind) {
  JsonObject part = object.object(kind);
  const Kernel kernel = read_kernel(part);
  if (const auto* wanted = std::get_if<Wanted>(&kernel)) return *wanted;
  object.report(kind, "is another kind of kernel", "write {\"kind\": \"" + kind + "\", ...}");
  return {};
}

// A memory-bound kernel is one of ours and has already been read by read_row_kernel.
struct TaskOf {
  Task operator()(const MemoryBound&) const { return RowKernel{}; }
  Task operator()(const Recorded& kernel) const { return refuse_recorded(kernel); }
  template <class Same>
  Task operator()(const Same& kernel) const {
    return kernel;
  }
};

}  // namespace

std::string_view to_string(RowOperation operation) {
  switch (operation) {
    case RowOperation::Copy:
      return "copy_kernel";
    case RowOperation::Add:
      return "add";
    case RowOperation::RmsNorm:
      return "rms_norm";
    case RowOperation::LayerNorm:
      return "layer_norm";
    case RowOperation::Swiglu:
      return "swiglu";
    case RowOperation::Softmax:
      return "softmax";
    case RowOperation::Rope:
      return "rope";
    case RowOperation::CrossEntropy:
      return "cross_entropy";
    case RowOperation::Embedding:
      return "embedding";
    case RowOperation::Permute:
      return "permute";
    case RowOperation::Cast:
      return "cast";
    case RowOperation::Adam:
      return "adam";
  }
  return "";
}

std::string_view to_string(Epilogue epilogue) {
  return epilogue == Epilogue::Bias ? "bias" : "gelu_bias";
}

std::string_view to_string(LaunchStyle style) {
  switch (style) {
    case LaunchStyle::Issue:
      return "issue";
    case LaunchStyle::Stream:
      return "stream";
    case LaunchStyle::Graph:
      return "graph";
  }
  return "";
}

// HBM bytes of a kernel: 2 for each 16-bit number and 4 for each fp32 number that it reads or
// writes once.
MemoryBound as_memory_bound(const RowKernel& kernel) {
  const std::int64_t elements = kernel.rows * kernel.columns;
  switch (kernel.operation) {
    case RowOperation::Copy:
      return {.kind = MemoryBoundKind::Elementwise, .bytes = elements * (2 + 2)};
    case RowOperation::Add:
      return {.kind = MemoryBoundKind::Elementwise, .bytes = elements * (2 + 2 + 2)};
    case RowOperation::RmsNorm:
      // The weight is read once; all rows but the first find it in a cache.
      return {.kind = MemoryBoundKind::Norm, .bytes = elements * (2 + 2) + 2 * kernel.columns};
    case RowOperation::LayerNorm:
      return {.kind = MemoryBoundKind::Norm, .bytes = elements * (2 + 2) + 4 * kernel.columns};
    case RowOperation::Swiglu:
      return {.kind = MemoryBoundKind::Activation, .bytes = elements * (4 + 2)};
    case RowOperation::Softmax:
      return {.kind = MemoryBoundKind::Softmax, .bytes = elements * (2 + 2)};
    case RowOperation::Rope:
      // The table of a row is shared by all its heads.
      return {.kind = MemoryBoundKind::Rope,
              .bytes = elements * (2 + 2) + kernel.rows * rope_head_columns * 2};
    case RowOperation::CrossEntropy:
      return {.kind = MemoryBoundKind::CrossEntropy, .bytes = elements * (2 + 2 + 2)};
    case RowOperation::Embedding:
      return {.kind = MemoryBoundKind::Embedding, .bytes = elements * (2 + 2)};
    case RowOperation::Permute:
      return {.kind = MemoryBoundKind::Permute, .bytes = elements * (2 + 2)};
    case RowOperation::Cast:
      return {.kind = MemoryBoundKind::Cast, .bytes = elements * (4 + 2)};
    case RowOperation::Adam:
      return {.kind = MemoryBoundKind::Optimizer,
              .bytes = elements * adam_mixed_bytes_per_parameter};
  }
  return {};
}

std::string task_text(const Task& task) { return std::visit(TextOf{}, task); }
std::string_view task_category(const Task& task) { return std::visit(GroupOf{}, task); }
nlohmann::ordered_json task_to_json(const Task& task) { return std::visit(JsonOf{}, task); }

Task refuse_recorded(const Recorded& kernel) {
  throw InputError(Problem{
      .file = {},
      .pointer = {},
      .problem = fmt::format("\"{}\" has no shape that could be measured", to_text(Kernel{kernel})),
      .hint = "leave it out"});
}

Task read_task(JsonObject object) {
  const Json& kind = object.raw("kind");
  if (kind == "memory_bound") return read_row_kernel(object);
  if (kind == "interference")
    return Interference{.sms = object.integer("sms", {.least = 1}),
                        .gemm = read_part<Gemm>(object, "gemm")};
  if (kind == "fused_gemm")
    return FusedGemm{.epilogue = read_enumerator(object, "epilogue", Epilogue::GeluBias),
                     .gemm = read_part<Gemm>(object, "gemm")};
  if (kind == "unfused_attention")
    return UnfusedAttention{read_part<Attention>(object, "attention")};
  if (kind == "launch")
    return Launches{.style = read_enumerator(object, "style", LaunchStyle::Graph),
                    .count = object.integer("count", {.least = 1})};
  return std::visit(TaskOf{}, read_kernel(object));
}

namespace {

constexpr const char* forms =
    "write \"gemm m8192 n1280 k8192 bf16 forward\", \"experts rows256x8 n4096 k7168\", "
    "\"attention heads32/8 q4096 d128 backward\", \"swiglu rows4096 columns14336\", \"copy "
    "host_to_device 1048576 B\" or \"launch stream count1000\"";

// The words of a line. The parser takes them one by one; a word that remains is an error.
class Words {
 public:
  explicit Words(const std::string& line) : line_(line) {
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words_.push_back(word);
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(Problem{"--shape", "", "\"" + line_ + "\" " + problem, forms});
  }

  // Removes the word and returns true if it is there.
  bool take(std::string_view wanted) {
    const auto found = std::find(words_.begin(), words_.end(), wanted);
    if (found == words_.end()) return false;
    words_.erase(found);
    return true;
  }

  // The numbers after a name: "rows256x8" is 256 eight times, "rows300,212" are two numbers.
  std::vector<std::int64_t> numbers(const std::string& name) {
    for (auto word = words_.begin(); word != words_.end(); ++word) {
      if (!word->starts_with(name)) continue;
      std::istringstream stream(word->substr(name.size()));
      std::vector<std::int64_t> found(1);
      char mark = ',';
      bool sound = static_cast<bool>(stream >> found.back());
      while (sound && stream >> mark) {
        std::int64_t next = 0;
        sound = static_cast<bool>(stream >> next) && (mark == ',' || (mark == 'x' && next > 0));
        if (mark == 'x')
          found.resize(static_cast<std::size_t>(next), found.front());
        else
          found.push_back(next);
      }
      if (!sound || std::ranges::any_of(found, [](std::int64_t n) { return n < 0; }))
        fail("has " + *word + ", which is neither ROWSxEXPERTS nor rows one by one");
      words_.erase(word);
      return found;
    }
    fail("has no " + name + " with numbers");
  }

  // The number after a name, as in "rows4096".
  std::int64_t number(const std::string& name, std::optional<std::int64_t> fallback = {}) {
    for (auto word = words_.begin(); word != words_.end(); ++word) {
      if (!word->starts_with(name)) continue;
      std::int64_t value = 0;
      const char* end = word->data() + word->size();
      const auto parsed = std::from_chars(word->data() + name.size(), end, value);
      // A word that only begins with the name is another one: "kv4096" is no k.
      if (parsed.ec != std::errc{} || parsed.ptr != end) continue;
      if (value < 1) fail("has " + *word + ", which is not positive");
      words_.erase(word);
      return value;
    }
    if (!fallback) fail("has no " + (name.empty() ? "size" : name + " with a number"));
    return *fallback;
  }

  // Two numbers, "heads32/8", or the same number twice, "heads32". The part after the slash becomes
  // a word with the same name, which number() then reads.
  std::pair<std::int64_t, std::int64_t> pair(const std::string& name) {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::size_t slash = words_[i].find('/');
      if (!words_[i].starts_with(name) || slash == std::string::npos) continue;
      const std::string second = name + words_[i].substr(slash + 1);
      words_[i].resize(slash);
      const std::int64_t first = number(name);
      words_.push_back(second);
      return {first, number(name)};
    }
    const std::int64_t both = number(name);
    return {both, both};
  }

  // Tries the names of all enumerators from 0 to `last`.
  template <class Enum>
  Enum enumerator(Enum last, std::optional<Enum> fallback, const std::string& what) {
    for (int i = 0; i <= static_cast<int>(last); ++i)
      if (take(to_string(static_cast<Enum>(i)))) return static_cast<Enum>(i);
    if (!fallback) fail("names no " + what);
    return *fallback;
  }

  void finish() const {
    if (!words_.empty()) fail("has \"" + words_.front() + "\", which means nothing here");
  }

 private:
  std::string line_;
  std::vector<std::string> words_;
};

Gemm read_gemm(Words& words) {
  return {.m = words.number("m"),
          .n = words.number("n"),
          .k = words.number("k"),
          .batch = words.number("batch", 1),
          .dtype = words.enumerator(DataType::Fp8, std::optional(DataType::Bf16), "dtype"),
          .pass = words.enumerator(GemmPass::WeightGrad, std::optional(GemmPass::Forward), "pass"),
          .accumulate_fp32 = words.take("accumulate_fp32")};
}

Task read_experts(Words& words) {
  return GroupedGemm{
      .rows = words.numbers("rows"),
      .n = words.number("n"),
      .k = words.number("k"),
      .dtype = words.enumerator(DataType::Fp8, std::optional(DataType::Bf16), "dtype"),
      .pass = words.enumerator(GemmPass::WeightGrad, std::optional(GemmPass::Forward), "pass"),
      .accumulate_fp32 = words.take("accumulate_fp32"),
      .per_expert = words.take("per_expert")};
}

// "heads32/8" and "d192/128" are two numbers; "heads32" and "d128" are the same number twice.
// Without kv there are as many keys as queries. There are no documents: all pairs that the mask
// allows are computed.
Attention read_attention(Words& words) {
  Attention read{.batch = words.number("batch", 1), .causal = !words.take("full")};
  (void)words.take("causal");
  std::tie(read.query_heads, read.kv_heads) = words.pair("heads");
  std::tie(read.head_dim_qk, read.head_dim_v) = words.pair("d");
  read.query_length = words.number("q");
  read.kv_length = words.number("kv", read.query_length);
  if (read.causal && read.kv_length != read.query_length)
    words.fail("is causal but has not as many keys as queries; add \"full\"");
  read.pairs = read.causal ? read.query_length * (read.query_length + 1) / 2
                           : read.query_length * read.kv_length;
  read.dtype = words.enumerator(DataType::Fp8, std::optional(DataType::Bf16), "dtype");
  read.backward = words.take("backward");
  (void)words.take("forward");
  return read;
}

Task read_copy(Words& words) {
  const auto direction =
      words.enumerator(CopyKind::DeviceToHost, std::optional<CopyKind>{}, "direction");
  (void)words.take("B");
  // The size is the only bare number, and its unit may be missing.
  return Copy{.kind = direction, .bytes = words.number("")};
}

Task read_launches(Words& words) {
  return Launches{
      .style = words.enumerator(LaunchStyle::Graph, std::optional<LaunchStyle>{}, "style"),
      .count = words.number("count")};
}

Task read_interference(Words& words) {
  const std::int64_t sms = words.number("sms");
  if (!words.take("gemm")) words.fail("names no gemm");
  return Interference{.sms = sms, .gemm = read_gemm(words)};
}

Task read_fused(Words& words) {
  const auto epilogue =
      words.enumerator(Epilogue::GeluBias, std::optional<Epilogue>{}, "epilogue (bias, gelu_bias)");
  if (!words.take("gemm")) words.fail("names no gemm");
  return FusedGemm{.epilogue = epilogue, .gemm = read_gemm(words)};
}

// Lines that begin with "unfused", "fused" or "interference" also contain the word "attention" or
// "gemm", so they are tried first.
Task read_any(Words& words) {
  if (words.take("unfused") && words.take("attention"))
    return UnfusedAttention{read_attention(words)};
  if (words.take("attention")) return read_attention(words);
  if (words.take("fused")) return read_fused(words);
  if (words.take("interference")) return read_interference(words);
  if (words.take("gemm")) return read_gemm(words);
  if (words.take("experts")) return read_experts(words);
  if (words.take("copy")) return read_copy(words);
  if (words.take("launch")) return read_launches(words);
  const auto operation =
      words.enumerator(RowOperation::Adam, std::optional<RowOperation>{}, "known kernel");
  return RowKernel{
      .operation = operation, .rows = words.number("rows"), .columns = words.number("columns")};
}

}  // namespace

Task read_shape_line(const std::string& line) {
  Words words(line);
  Task task = read_any(words);
  words.finish();
  return task;
}

}  // namespace trainyard::bench
