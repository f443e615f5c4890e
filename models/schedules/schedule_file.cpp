// Reads a user's own schedule from a JSON file. `schedule` in a scenario, or the name given to
// `trainyard schedule`, is then the path of the file (it ends in ".json").
//
//    {
//      "placement": "wrap",             // or "vee", "bidirectional" (schedule.hpp); default wrap
//      "ranks": ["F0 F1 B0 W0 B1 W1",   // program order of rank 0
//                "F0 B0 F1 B1 W0 W1"]   // one list for each pipeline rank
//    }
//
// A step is a letter, a microbatch from 0 and, where ranks have several chunks, ".chunk". F3 is a
// forward, B3 the backward, b3 its input-gradient part and W3 (or w3) its weight-gradient part. A B
// is the input-gradient part if the same list contains its W. "F4.0&B1.1" runs a forward and a full
// backward as one overlapped block. The reader counts microbatches and chunks from the steps.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <sstream>
#include <utility>

#include "models/schedules/schedule.hpp"
#include "sim/base/json_reader.hpp"

namespace trainyard {

namespace {

constexpr std::int32_t kMicrobatchesMost = 65536;
constexpr std::int32_t kChunksMost = 64;

class FileSchedule final : public Schedule {
 public:
  FileSchedule(std::string name, PipelineShape shape, ScheduleLists lists)
      : name_(std::move(name)), shape_(shape), lists_(std::move(lists)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view summary() const override { return "a schedule of the user's own"; }
  [[nodiscard]] StagePlacement placement() const override { return shape_.placement; }
  [[nodiscard]] std::int64_t usual_chunks() const override { return shape_.chunks; }
  [[nodiscard]] std::optional<PipelineShape> own_shape() const override { return shape_; }
  [[nodiscard]] std::optional<std::string> refusal(const PipelineShape& shape) const override {
    if (shape.stages == shape_.stages && shape.microbatches == shape_.microbatches &&
        shape.chunks == shape_.chunks) {
      return std::nullopt;
    }
    return fmt::format(
        "{} is written for {} ranks, {} microbatches and {} chunks, not for {}, {} and {}", name_,
        shape_.stages, shape_.microbatches, shape_.chunks, shape.stages, shape.microbatches,
        shape.chunks);
  }
  [[nodiscard]] std::vector<ScheduleStep> steps(const PipelineShape& /*shape*/,
                                                std::int64_t rank) const override {
    return lists_[static_cast<std::size_t>(rank)];
  }

 private:
  std::string name_;
  PipelineShape shape_;
  ScheduleLists lists_;
};

std::optional<std::int32_t> number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<StepKind> kind_of(char letter) {
  switch (letter) {
    case 'F':
      return StepKind::Forward;
    case 'B':
      return StepKind::Backward;
    case 'b':
      return StepKind::BackwardInput;
    case 'W':
    case 'w':
      return StepKind::BackwardWeight;
    default:
      return std::nullopt;
  }
}

std::optional<ScheduleStep> step_of(std::string_view word) {
  if (word.empty()) return std::nullopt;
  const std::optional<StepKind> kind = kind_of(word.front());
  word.remove_prefix(1);
  const std::size_t dot = word.find('.');
  const auto microbatch = number(word.substr(0, dot));
  const auto chunk = dot == std::string_view::npos ? 0 : number(word.substr(dot + 1));
  if (!kind || !microbatch || !chunk) return std::nullopt;
  if (*microbatch >= kMicrobatchesMost || *chunk >= kChunksMost) return std::nullopt;
  return ScheduleStep{.kind = *kind, .microbatch = *microbatch, .chunk = *chunk};
}

// A backward is the input-gradient part if the list has a separate step for its weight-gradient
// part.
void split_backwards(std::vector<ScheduleStep>& list) {
  std::set<std::pair<std::int32_t, std::int32_t>> weights;
  for (const ScheduleStep& step : list) {
    if (step.kind == StepKind::BackwardWeight) weights.emplace(step.microbatch, step.chunk);
  }
  for (ScheduleStep& step : list) {
    const bool split = weights.contains({step.microbatch, step.chunk});
    if (step.kind == StepKind::Backward && split) step.kind = StepKind::BackwardInput;
  }
}

// Parses the steps of one rank. It reports the first word that is not a step and then stops.
std::vector<ScheduleStep> list_of(const std::string& text, std::size_t rank, JsonFile& file) {
  std::vector<ScheduleStep> list;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t joint = word.find('&');
    const auto first = step_of(std::string_view(word).substr(0, joint));
    const auto second = joint == std::string::npos
                            ? std::optional<ScheduleStep>(ScheduleStep{})
                            : step_of(std::string_view(word).substr(joint + 1));
    if (!first || !second) {
      file.report(fmt::format("/ranks/{}", rank),
                  fmt::format("rank {} has \"{}\" at position {}, which is no step", rank, word,
                              list.size()),
                  "a step is F3, B3, b3 or W3, with several chunks F3.1, overlapped F3&B1");
      return {};
    }
    list.push_back(*first);
    if (joint == std::string::npos) continue;
    list.back().overlapped = true;
    list.push_back(*second);
  }
  split_backwards(list);
  return list;
}

PipelineShape shape_of(const ScheduleLists& lists, const std::string& placement) {
  PipelineShape shape{.stages = std::ssize(lists), .microbatches = 1, .chunks = 1};
  for (const std::vector<ScheduleStep>& list : lists) {
    for (const ScheduleStep& step : list) {
      shape.microbatches = std::max<std::int64_t>(shape.microbatches, step.microbatch + 1);
      shape.chunks = std::max<std::int64_t>(shape.chunks, step.chunk + 1);
    }
  }
  if (placement == "vee") shape.placement = StagePlacement::Vee;
  if (placement == "bidirectional") shape.placement = StagePlacement::Bidirectional;
  return shape;
}

std::unique_ptr<const Schedule> schedule_of(JsonFile file) {
  JsonObject root = file.root();
  root.ignore("description");
  const std::string placement = root.choice("placement", {"wrap", "vee", "bidirectional"}, "wrap");
  const std::vector<std::string> texts = root.texts("ranks");
  ScheduleLists lists;
  for (const std::string& text : texts) lists.push_back(list_of(text, lists.size(), file));
  if (!file.has_problems() && lists.empty()) {
    file.report("/ranks", "there is no rank", "give one list of steps for each pipeline rank");
  }
  file.report_unknown_keys();
  const PipelineShape shape = shape_of(lists, placement);
  if (!file.has_problems() && shape.placement != StagePlacement::Wrap && shape.chunks != 2) {
    file.report(
        "/placement",
        fmt::format("{} has 2 chunks per rank, but the steps name {}", placement, shape.chunks),
        "write the chunk behind the dot: F0.0 and F0.1");
  }
  if (!file.has_problems()) {
    if (const auto fault = check_schedule(lists, shape)) {
      file.report("/ranks", *fault, "`trainyard schedule 1f1b` shows a legal order");
    }
  }
  file.finish();
  return std::make_unique<FileSchedule>(file.name(), shape, std::move(lists));
}

}  // namespace

std::unique_ptr<const Schedule> read_schedule_file(const std::string& file) {
  return schedule_of(JsonFile::read(file));
}

std::unique_ptr<const Schedule> parse_schedule(const std::string& name, std::string_view json) {
  return schedule_of(JsonFile::parse(name, json));
}

std::string schedule_json(const ScheduleLists& lists, const PipelineShape& shape) {
  nlohmann::ordered_json document;
  constexpr std::array placements = {"wrap", "vee", "bidirectional"};
  document["placement"] = placements[static_cast<std::size_t>(shape.placement)];
  document["ranks"] = nlohmann::ordered_json::array();
  for (const std::vector<ScheduleStep>& list : lists) {
    std::string text;
    for (std::size_t index = 0; index < list.size(); ++index) {
      if (index > 0) text += list[index - 1].overlapped ? '&' : ' ';
      text += to_text(list[index], shape);
    }
    document["ranks"].push_back(std::move(text));
  }
  return document.dump(2) + "\n";
}

}  // namespace trainyard
