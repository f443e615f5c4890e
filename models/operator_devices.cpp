#include "models/operator_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "models/layers/layer_block.hpp"
#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"

namespace trainyard {

namespace {

constexpr const char* kField = "/parallelism/operator_devices";

[[noreturn]] void refuse(const std::string& pointer, std::string problem, std::string hint) {
  throw InputError(Problem{{}, pointer, std::move(problem), std::move(hint)});
}

// A word of rules and the range of operators that it means. `of_kind`: the word means only one kind
// of block; kinds with the same half have separate words.
struct Word {
  std::string_view text;
  Operator first;
  Operator last;
  bool of_kind = false;
};

void add_blocks(std::vector<Word>& words, LayerHalf half, Operator one) {
  for (const LayerBlock& block : layer_blocks())
    if (block.half == half &&
        std::ranges::find(words, block.operator_word, &Word::text) == words.end())
      words.push_back({block.operator_word, one, one, true});
}

std::vector<Word> make_words() {
  std::vector<Word> words{{"embedding", Operator::Embedding, Operator::Embedding},
                          {"attention_norm", Operator::AttentionNorm, Operator::AttentionNorm}};
  add_blocks(words, LayerHalf::Attention, Operator::Attention);
  words.push_back({"mlp_norm", Operator::FeedForwardNorm, Operator::FeedForwardNorm});
  add_blocks(words, LayerHalf::FeedForward, Operator::FeedForward);
  const std::array others{Word{"final_norm", Operator::FinalNorm, Operator::FinalNorm},
                          Word{"head", Operator::Head, Operator::Head},
                          Word{"loss", Operator::Loss, Operator::Loss},
                          Word{"layer", Operator::AttentionNorm, Operator::FeedForward},
                          Word{"attention_block", Operator::AttentionNorm, Operator::Attention},
                          Word{"mlp_block", Operator::FeedForwardNorm, Operator::FeedForward},
                          Word{"head_block", Operator::FinalNorm, Operator::Loss}};
  words.insert(words.end(), others.begin(), others.end());
  return words;
}

const std::vector<Word>& words() {
  static const std::vector<Word> all = make_words();
  return all;
}

bool is_of_layers(const Word& word) {
  return word.first >= Operator::AttentionNorm && word.last <= Operator::FeedForward;
}

// One operator of the model, and the rule that assigns its device.
struct Place {
  Operator one;
  std::int32_t layer = -1;
  std::optional<std::size_t> rule = {};
};

// The word for the block of that layer. REQUIRES: attention or feed-forward.
std::string_view word_of_block(const Place& place, const Architecture& architecture) {
  const LayerHalf half =
      place.one == Operator::Attention ? LayerHalf::Attention : LayerHalf::FeedForward;
  return block_of(layer_kind(architecture, place.layer), half).operator_word;
}

bool is_block(Operator one) { return one == Operator::Attention || one == Operator::FeedForward; }

std::string text_of(const Place& place, const Architecture& architecture) {
  if (is_block(place.one))
    return fmt::format("{} {}", word_of_block(place, architecture), place.layer);
  const auto found = std::ranges::find_if(words(), [&place](const Word& word) {
    return word.first == place.one && word.last == place.one;
  });
  if (place.layer < 0) return std::string(found->text);
  return fmt::format("{} {}", found->text, place.layer);
}

struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// Assigns a rule to every operator, in the order of the forward pass, and merges operators into
// segments. The first error throws.
class RuleReader {
 public:
  explicit RuleReader(const TrainingPlan& plan)
      : plan_(plan), rules_(plan.parallelism.operator_devices) {
    places_.push_back({.one = Operator::Embedding});
    for (std::int32_t layer = 0; layer < plan.architecture.layers; ++layer)
      for (const Operator one : {Operator::AttentionNorm, Operator::Attention,
                                 Operator::FeedForwardNorm, Operator::FeedForward})
        places_.push_back({.one = one, .layer = layer});
    for (const Operator one : {Operator::FinalNorm, Operator::Head, Operator::Loss})
      places_.push_back({.one = one});
  }

  std::vector<Segment> read() {
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) apply(rule);
    check_places();
    check_devices();
    check_tied();
    return segments();
  }

 private:
  // Applies one rule to the operators that its word means. With explicit layers, a layer of another
  // kind of block is an error; without, such layers are skipped.
  void apply(std::size_t rule) {
    const std::string& text = rules_[rule].operators;
    const std::size_t end = text.find(' ');
    const Word& word = word_of(text.substr(0, end), rule);
    std::optional<LayerRange> layers;
    if (end != std::string::npos) layers = range_of(text.substr(end + 1), word, rule);
    if (rules_[rule].device >= plan_.parallelism.pipeline)
      refuse(pointer(rule), fmt::format("there is no device {}", rules_[rule].device),
             fmt::format("pipeline is the number of devices of a replica; they are 0 to {}",
                         plan_.parallelism.pipeline - 1));
    bool any = false;
    for (Place& place : places_) {
      if (place.one < word.first || place.one > word.last) continue;
      if (layers && (place.layer < layers->first || place.layer > layers->last)) continue;
      if (word.of_kind && word_of_block(place, plan_.architecture) != word.text) {
        if (layers) wrong_kind(place, rule);
        continue;
      }
      if (place.rule)
        refuse(pointer(rule),
               fmt::format("{} is placed by \"{}\" already", text_of(place, plan_.architecture),
                           rules_[*place.rule].operators),
               "name every operator of every layer once");
      place.rule = rule;
      any = true;
    }
    if (!any)
      refuse(pointer(rule), fmt::format("{} has no such layer", plan_.architecture.name),
             "leave it out");
  }

  [[nodiscard]] std::string pointer(std::size_t rule) const {
    return fmt::format("{}/{}", kField, rules_[rule].operators);
  }

  [[nodiscard]] const Word& word_of(const std::string& text, std::size_t rule) const {
    const auto found = std::ranges::find(words(), std::string_view(text), &Word::text);
    if (found != words().end()) return *found;
    refuse(pointer(rule), fmt::format("there is no operator \"{}\"", text),
           suggestion(text, operator_words()));
  }

  [[noreturn]] void wrong_kind(const Place& place, std::size_t rule) const {
    const std::string_view word = word_of_block(place, plan_.architecture);
    refuse(pointer(rule), fmt::format("layer {} has {} in this place", place.layer, word),
           fmt::format("write \"{}\", or \"layer\" for all of it", word));
  }

  // Parses "7" or "0-11".
  [[nodiscard]] LayerRange range_of(const std::string& text, const Word& word,
                                    std::size_t rule) const {
    const std::int64_t layers = plan_.architecture.layers;
    if (!is_of_layers(word))
      refuse(pointer(rule), fmt::format("{} is of no layer", word.text), "leave the layers out");
    LayerRange range;
    const char* end = text.data() + text.size();
    const auto [dash, first_error] = std::from_chars(text.data(), end, range.first);
    range.last = range.first;
    bool sound = first_error == std::errc{};
    if (sound && dash != end) {
      const auto [stop, error] = std::from_chars(dash + 1, end, range.last);
      sound = *dash == '-' && error == std::errc{} && stop == end;
    }
    if (!sound || range.first < 0 || range.last < range.first || range.last >= layers)
      refuse(pointer(rule), fmt::format("\"{}\" is no range of layers", text),
             fmt::format("write the first and the last, as 0-{}, or one number", layers - 1));
    return range;
  }

  // Reports operators without a rule.
  void check_places() const {
    std::vector<std::string> missing;
    for (const Place& place : places_)
      if (!place.rule) missing.push_back(text_of(place, plan_.architecture));
    if (missing.empty()) return;
    constexpr std::size_t kShown = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(kShown, missing.size()); ++i)
      text += (text.empty() ? "" : ", ") + missing[i];
    if (missing.size() > kShown) text += fmt::format(" and {} more", missing.size() - kShown);
    refuse(kField, fmt::format("{} operators have no device: {}", missing.size(), text),
           "give every operator a device: \"layer\" means all operators of a layer, \"head_block\" "
           "final_norm, "
           "head and loss");
  }

  // Reports devices without an operator.
  void check_devices() const {
    std::set<std::int64_t> used;
    for (const OperatorRule& rule : rules_) used.insert(rule.device);
    for (std::int64_t device = 0; device < plan_.parallelism.pipeline; ++device)
      if (!used.contains(device))
        refuse(kField,
               fmt::format("device {} of {} holds nothing", device, plan_.parallelism.pipeline),
               "set pipeline to the number of devices that hold something");
  }

  // Reports a tied embedding on another device than the LM head.
  void check_tied() const {
    if (!plan_.architecture.tied_embeddings) return;
    const auto device_of = [&](Operator one) {
      return device(*std::ranges::find(places_, one, &Place::one));
    };
    if (device_of(Operator::Embedding) == device_of(Operator::Head)) return;
    refuse(kField,
           fmt::format("{} has one table for embedding and head, which must be on one device",
                       plan_.architecture.name),
           "place embedding and head on the same device");
  }

  [[nodiscard]] std::int64_t device(const Place& place) const { return rules_[*place.rule].device; }

  // Consecutive operators of one layer on one device form a segment. The embedding is always a
  // segment alone.
  [[nodiscard]] std::vector<Segment> segments() const {
    std::vector<Segment> all;
    for (const Place& place : places_) {
      const bool embedding = !all.empty() && all.back().first == Operator::Embedding;
      if (!all.empty() && !embedding && all.back().layer == place.layer &&
          all.back().device == device(place)) {
        all.back().last = place.one;
      } else {
        all.push_back(
            {.device = device(place), .layer = place.layer, .first = place.one, .last = place.one});
      }
    }
    return all;
  }

  const TrainingPlan& plan_;
  const std::vector<OperatorRule>& rules_;
  std::vector<Place> places_;
};

// True if the segment writes the residual stream.
bool changes_stream(const Segment& segment) {
  return segment.holds(Operator::Embedding) || segment.holds(Operator::Attention) ||
         segment.holds(Operator::FeedForward);
}

// Each output is copied to a device once, for the first segment on that device that reads it.
std::vector<Transfer> transfers_of(const std::vector<Segment>& segments) {
  std::vector<Transfer> transfers;
  std::set<std::pair<SegmentOutput, std::int64_t>> already_copied;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (const SegmentOutput& input : inputs_of(segments, i)) {
      const std::int64_t from = segments[input.segment].device;
      const std::int64_t to = segments[i].device;
      if (from != to && already_copied.insert({input, to}).second)
        transfers.push_back({.output = input, .from = from, .to = to, .before = i});
    }
  }
  return transfers;
}

// Collects for each segment the devices that compute a gradient of each of its outputs. The first
// gradient of an output needs no addition.
std::vector<std::int64_t> gradient_sums(const std::vector<Segment>& segments) {
  std::vector<std::set<std::pair<SegmentOutput, std::int64_t>>> makers(segments.size());
  std::vector<std::set<SegmentOutput>> outputs(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& own = segments[i];
    // The norm after an attention on the same device also reads the stream that the attention
    // writes.
    if (own.last == Operator::FeedForwardNorm && own.holds(Operator::Attention))
      makers[i].insert({{.segment = i, .stream = true}, own.device});
    for (const SegmentOutput& input : inputs_of(segments, i)) {
      makers[input.segment].insert({input, own.device});
      outputs[input.segment].insert(input);
    }
  }
  std::vector<std::int64_t> sums;
  for (std::size_t i = 0; i < segments.size(); ++i)
    sums.push_back(static_cast<std::int64_t>(makers[i].size() - outputs[i].size()));
  return sums;
}

}  // namespace

std::vector<std::string> operator_words() {
  std::vector<std::string> texts;
  for (const Word& word : words()) texts.emplace_back(word.text);
  return texts;
}

// A segment reads the residual stream from the last segment before it that changed the stream. If
// it does not start with a norm, it also reads the output of the segment before it.
std::vector<SegmentOutput> inputs_of(const std::vector<Segment>& segments, std::size_t segment) {
  const Operator first = segments[segment].first;
  if (first == Operator::Embedding) return {};
  std::vector<SegmentOutput> inputs;
  if (first != Operator::Head && first != Operator::Loss) {
    std::size_t writer = segment - 1;
    while (!changes_stream(segments[writer])) --writer;
    inputs.push_back({.segment = writer, .stream = true});
  }
  const bool norm = first == Operator::AttentionNorm || first == Operator::FeedForwardNorm ||
                    first == Operator::FinalNorm;
  if (!norm) inputs.push_back({.segment = segment - 1, .stream = false});
  return inputs;
}

OperatorSplit operator_split(const TrainingPlan& plan) {
  OperatorSplit split;
  split.segments = RuleReader(plan).read();
  split.transfers = transfers_of(split.segments);
  split.gradient_sums = gradient_sums(split.segments);
  return split;
}

}  // namespace trainyard
