#include "kernels/bench/shape_line.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <tuple>
#include <vector>

#include "sim/base/error.hpp"

namespace trainyard::bench {

namespace {

constexpr const char* forms =
    "write \"gemm m8192 n1280 k8192 bf16 forward\", \"experts rows256x8 n4096 k7168\", "
    "\"attention heads32/8 q4096 d128 backward\", \"swiglu rows4096 columns14336\", \"copy "
    "host_to_device 1048576 B\" or \"launch stream count1000\"";

// The words of a line, taken one by one; what nobody took is a problem.
class Words {
 public:
  explicit Words(const std::string& line) : line_(line) {
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words_.push_back(word);
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw InputError(Problem{"--shape", "", "\"" + line_ + "\" " + problem, forms});
  }

  // Takes the word if it is there.
  bool take(std::string_view wanted) {
    const auto found = std::find(words_.begin(), words_.end(), wanted);
    if (found == words_.end()) return false;
    words_.erase(found);
    return true;
  }

  // The numbers behind a name: "rows256x8" is 256 eight times, "rows300,212" are two.
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

  // The number behind a name, "rows4096".
  std::int64_t number(const std::string& name, std::optional<std::int64_t> fallback = {}) {
    for (auto word = words_.begin(); word != words_.end(); ++word) {
      if (!word->starts_with(name)) continue;
      std::int64_t value = 0;
      const char* end = word->data() + word->size();
      const auto parsed = std::from_chars(word->data() + name.size(), end, value);
      if (parsed.ec != std::errc{} || parsed.ptr != end) continue;
      if (value < 1) fail("has " + *word + ", which is not positive");
      words_.erase(word);
      return value;
    }
    if (!fallback) fail("has no " + (name.empty() ? "size" : name + " with a number"));
    return *fallback;
  }

  // Two numbers, "heads32/8", or twice the same, "heads32".
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

// "heads32/8" and "d192/128" are two numbers, "heads32" and "d128" twice the same; without kv as
// many keys as queries. No documents: all pairs that the mask leaves.
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
