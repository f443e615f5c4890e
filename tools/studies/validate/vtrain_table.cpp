// vTrain's measurements of GPT on one node, brought into the form of the other rows.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <sstream>

#include "sim/base/error.hpp"
#include "tools/studies/validate/dataset.hpp"

namespace trainyard {

using Json = nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, 11> kColumns{
    "gpus", "global_batch", "micro_batch", "hidden", "heads",       "layers",
    "seq",  "tp",           "dp",          "pp",     "iteration_ms"};

struct Line {
  std::array<std::int64_t, 10> whole{};
  double iteration_ms = 0.0;
};

template <class Number>
bool parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

Line line_of(const std::string& file, std::size_t number, std::string text) {
  if (!text.empty() && text.back() == '\r') text.pop_back();
  Line line;
  std::istringstream cells(text);
  std::string cell;
  std::size_t column = 0;
  bool sound = true;
  for (; std::getline(cells, cell, ',') && column < kColumns.size(); ++column) {
    sound = sound && (column < line.whole.size() ? parse(cell, line.whole[column])
                                                 : parse(cell, line.iteration_ms));
  }
  if (sound && column == kColumns.size()) return line;
  throw InputError(
      Problem{fmt::format("{}:{}", file, number), "", "is no line of vTrain's table",
              fmt::format("{} numbers: {}", kColumns.size(), fmt::join(kColumns, ","))});
}

// GPT with 1F1B, activation recomputation, unfused attention, fp16, vocabulary 50257, as the table
// says of itself.
Json description(const Line& line) {
  const auto [gpus, batch, micro, hidden, heads, layers, seq, tp, dp, pp] = line.whole;
  return {{"model",
           {{"name", fmt::format("GPT h{} l{}", hidden, layers)},
            {"arch", "dense"},
            {"layers", layers},
            {"hidden", hidden},
            {"heads", heads},
            {"kv_heads", heads},
            {"head_dim", heads > 0 ? hidden / heads : 0},
            {"ffn", 4 * hidden},
            {"gated_mlp", false},
            {"vocab", 50257}}},
          {"hardware", {{"gpu", "A100-SXM4-80GB"}, {"nics", "single node"}, {"num_gpus", gpus}}},
          {"framework", "Megatron-DeepSpeed (vTrain, one node)"},
          {"precision", "FP16"},
          {"parallel", {{"tp", tp}, {"pp", pp}, {"dp", dp}, {"zero_stage", 0}}},
          {"batch", {{"micro_batch", micro}, {"global_batch", batch}, {"seq_len", seq}}},
          {"recompute", "full"}};
}

}  // namespace

std::vector<MeasuredRow> read_vtrain_table(const std::string& file, const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  std::vector<MeasuredRow> rows;
  for (std::size_t number = 2; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const Line read = line_of(file, number, line);
    const auto [gpus, batch, micro, hidden, heads, layers, seq, tp, dp, pp] = read.whole;
    rows.push_back(
        {.id = fmt::format("vtrain_single-n{}-h{}-a{}-l{}-s{}-t{}-d{}-p{}-m{}-g{}-{}", gpus, hidden,
                           heads, layers, seq, tp, dp, pp, micro, batch, number),
         .source = "vtrain_single",
         .description = description(read),
         .step_time_s = read.iteration_ms / 1e3});
  }
  return rows;
}

}  // namespace trainyard
