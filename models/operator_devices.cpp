#include "models/operator_devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "sim/base/error.hpp"
#include "sim/base/nearest.hpp"

namespace trainyard {

namespace {

constexpr const char* kField = "/parallelism/operator_devices";

[[noreturn]] void refuse(const std::string& pointer, std::string problem, std::string hint) {
  throw InputError(Problem{{}, pointer, std::move(problem), std::move(hint)});
}

// A word of rules, and the run of operators it stands for. The feed-forward part of a layer has a
// name of its own where it is made of experts.
struct Word {
  std::string_view text;
  Operator first;
  Operator last;
  std::optional<LayerKind> kind = {};
};
constexpr std::array<Word, 13> kWords = {{
    {"embedding", Operator::Embedding, Operator::Embedding},
    {"attention_norm", Operator::AttentionNorm, Operator::AttentionNorm},
    {"attention", Operator::Attention, Operator::Attention},
    {"mlp_norm", Operator::FeedForwardNorm, Operator::FeedForwardNorm},
    {"mlp", Operator::FeedForward, Operator::FeedForward, LayerKind::Dense},
    {"experts", Operator::FeedForward, Operator::FeedForward, LayerKind::Moe},
    {"final_norm", Operator::FinalNorm, Operator::FinalNorm},
    {"head", Operator::Head, Operator::Head},
    {"loss", Operator::Loss, Operator::Loss},
    {"layer", Operator::AttentionNorm, Operator::FeedForward},
    {"attention_block", Operator::AttentionNorm, Operator::Attention},
    {"mlp_block", Operator::FeedForwardNorm, Operator::FeedForward},
    {"head_block", Operator::FinalNorm, Operator::Loss},
}};

bool is_of_layers(const Word& word) {
  return word.first >= Operator::AttentionNorm && word.last <= Operator::FeedForward;
}

std::string_view name_of(Operator one, LayerKind kind) {
  for (const Word& word : kWords)
    if (word.first == one && word.last == one && word.kind.value_or(kind) == kind) return word.text;
  return "";
}

// An operator of the model, where it stands and which rule says so.
struct Place {
  Operator one;
  std::int32_t layer = -1;
  std::optional<std::size_t> rule = {};
};

std::string text_of(const Place& place, const Architecture& architecture) {
  if (place.layer < 0) return std::string(name_of(place.one, LayerKind::Dense));
  return fmt::format("{} {}", name_of(place.one, architecture.kind_of(place.layer)), place.layer);
}

struct LayerRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

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
      if (word.kind && plan_.architecture.kind_of(place.layer) != *word.kind) {
        if (layers) wrong_kind(place, rule);
        continue;
      }
      if (place.rule)
        refuse(pointer(rule),
               fmt::format("{} stands in \"{}\" already", text_of(place, plan_.architecture),
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
    const auto found = std::ranges::find(kWords, std::string_view(text), &Word::text);
    if (found != kWords.end()) return *found;
    refuse(pointer(rule), fmt::format("there is no operator \"{}\"", text),
           suggestion(text, operator_words()));
  }

  [[noreturn]] void wrong_kind(const Place& place, std::size_t rule) const {
    const bool moe = plan_.architecture.kind_of(place.layer) == LayerKind::Moe;
    refuse(pointer(rule),
           moe ? fmt::format("layer {} has experts in the place of an mlp", place.layer)
               : fmt::format("layer {} has an mlp and no experts", place.layer),
           fmt::format("write \"{}\", or mlp_block for either", moe ? "experts" : "mlp"));
  }

  // "7" or "0-11".
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
    refuse(
        kField, "says of no device that it holds " + text,
        "place every operator: \"layer\" stands for all of a layer, \"head_block\" for final_norm, "
        "head and loss");
  }

  void check_devices() const {
    std::set<std::int64_t> used;
    for (const OperatorRule& rule : rules_) used.insert(rule.device);
    for (std::int64_t device = 0; device < plan_.parallelism.pipeline; ++device)
      if (!used.contains(device))
        refuse(kField,
               fmt::format("device {} of {} holds nothing", device, plan_.parallelism.pipeline),
               "set pipeline to the number of devices that hold something");
  }

  void check_tied() const {
    if (!plan_.architecture.tied_embeddings) return;
    const auto device_of = [&](Operator one) {
      return device(*std::ranges::find(places_, one, &Place::one));
    };
    if (device_of(Operator::Embedding) == device_of(Operator::Head)) return;
    refuse(kField,
           fmt::format("{} has one table for embedding and head, which stands on one device",
                       plan_.architecture.name),
           "place embedding and head on the same device");
  }

  [[nodiscard]] std::int64_t device(const Place& place) const { return rules_[*place.rule].device; }

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

bool changes_stream(const Segment& segment) {
  return segment.holds(Operator::Embedding) || segment.holds(Operator::Attention) ||
         segment.holds(Operator::FeedForward);
}

std::vector<Transfer> transfers_of(const std::vector<Segment>& segments) {
  std::vector<Transfer> transfers;
  std::set<std::pair<SegmentOutput, std::int64_t>> there;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (const SegmentOutput& input : inputs_of(segments, i)) {
      const std::int64_t from = segments[input.segment].device;
      const std::int64_t to = segments[i].device;
      if (from != to && there.insert({input, to}).second)
        transfers.push_back({.output = input, .from = from, .to = to, .before = i});
    }
  }
  return transfers;
}

std::vector<std::int64_t> gradient_sums(const std::vector<Segment>& segments) {
  std::vector<std::set<std::pair<SegmentOutput, std::int64_t>>> makers(segments.size());
  std::vector<std::set<SegmentOutput>> outputs(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& own = segments[i];
    // The norm behind an attention on the same device reads what that leaves.
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
  std::vector<std::string> words;
  for (const Word& word : kWords) words.emplace_back(word.text);
  return words;
}

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
