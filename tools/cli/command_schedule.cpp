// `trainyard schedule`: draws any pipeline schedule as a chart, with its bubble and memory.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "models/schedules/schedule.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/nearest.hpp"
#include "sim/render/svg.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

// Sizes of the picture in pixels.
constexpr double kLeft = 80.0;
constexpr double kTop = 50.0;
constexpr double kRow = 26.0;
constexpr double kBox = 22.0;
constexpr double kWidth = 1200.0;

std::string_view opacity(StepKind kind) {
  if (kind == StepKind::Forward) return "0.35";
  return kind == StepKind::BackwardWeight ? "0.6" : "0.85";
}

// Which half of the height a box takes. A forward and a backward that overlap share their time: the
// forward is the upper half, the backward the lower half.
struct Half {
  bool first = false;
  bool second = false;
};

std::string box(const PlayedStep& played, const Half& half, double row, double per_s) {
  const double height = half.first || half.second ? kBox / 2.0 : kBox;
  const double x = kLeft + played.start_s * per_s;
  const double y = kTop + row * kRow + (half.second ? kBox / 2.0 : 0.0);
  const double width = (played.end_s - played.start_s) * per_s;
  std::string text = fmt::format(
      R"(<rect x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" fill="{}" fill-opacity="{}" )"
      "stroke=\"#fff\" stroke-width=\"0.5\"/>\n",
      x, y, width, height, svg_colour(static_cast<std::size_t>(played.step.chunk)),
      opacity(played.step.kind));
  const std::string label = fmt::format("{}", played.step.microbatch);
  constexpr double kDigit = 7.0;
  if (width < kDigit * static_cast<double>(label.size()) + 2.0) return text;
  return text + fmt::format(R"(<text x="{:.2f}" y="{:.2f}" text-anchor="middle" )"
                            "font-size=\"{}\">{}</text>\n",
                            x + width / 2.0, y + height / 2.0 + 4.0, height < kBox ? 9 : 11, label);
}

// A played schedule as a complete SVG document, with one line for each rank and one box for each
// step. Forwards are light and backwards are dark, in one colour for each chunk. A box shows the
// number of its microbatch if it is wide enough.
std::string schedule_svg(const PlayedSchedule& played, const PipelineShape& shape,
                         const std::string& title) {
  const double per_s = kWidth / std::max(played.makespan_s, 1e-12);
  std::string body;
  for (std::size_t rank = 0; rank < played.ranks.size(); ++rank) {
    const auto row = static_cast<double>(rank);
    body +=
        fmt::format("<text x=\"10\" y=\"{:.0f}\">rank {}</text>\n", kTop + row * kRow + 16.0, rank);
    Half half;
    for (const PlayedStep& step : played.ranks[rank]) {
      // `overlapped` marks the forward of a pair. The step after it is its backward.
      half = {.first = step.step.overlapped, .second = half.first};
      body += box(step, half, row, per_s);
    }
  }
  const double bottom = kTop + static_cast<double>(played.ranks.size()) * kRow;
  body += fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\">light: forward, dark: backward, between: weight gradient; a "
      "colour for each of {} chunk{}; makespan {:.6g} s</text>\n",
      kLeft, bottom + 20.0, shape.chunks, shape.chunks == 1 ? "" : "s", played.makespan_s);
  return svg_page({.title = title,
                   .width = kLeft + kWidth + 20.0,
                   .height = bottom + 40.0,
                   .body = std::move(body)});
}

struct ScheduleChoice {
  std::string name;
  // chunks 0: the usual number of the schedule
  PipelineShape shape{.stages = 4, .microbatches = 8, .chunks = 0};
  double forward_s = 1.0;
  double backward_s = 2.0;
  double weight_s = 0.0;  // 0: half of the backward
  double transfer_s = 0.0;
  std::size_t width = 0;  // 0: the width of the terminal, or 100
  std::string svg = {};   // the file of the picture; empty: no picture
};

std::size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 100;
}

FoundSchedule chosen_schedule(const ScheduleChoice& choice) {
  if (FoundSchedule schedule = open_schedule(choice.name)) return schedule;
  std::vector<std::string> names;
  for (const Schedule* schedule : schedules()) names.emplace_back(schedule->name());
  const std::string near = nearest(choice.name, names);
  throw InputError(Problem{.file = {},
                           .pointer = {},
                           .problem = "there is no schedule \"" + choice.name + "\"",
                           .hint = near.empty() ? "`trainyard list schedules` shows them"
                                                : "did you mean " + near + "?"});
}

// Refuses a chart with more steps than this, because nobody could read it and it would take
// gigabytes.
void refuse_too_large(const PipelineShape& shape) {
  constexpr std::int64_t kStepsMost = 1'000'000;
  const std::int64_t steps = 2 * shape.stages * shape.microbatches * shape.chunks;
  if (steps <= kStepsMost) return;
  throw InputError(
      Problem{.file = {},
              .pointer = {},
              .problem = fmt::format("the schedule has {} steps, more than {}", steps, kStepsMost),
              .hint = "use fewer stages, microbatches or chunks"});
}

// Refuses durations that are not numbers or out of range. CLI11's own range check accepts "nan".
void refuse_durations(const ScheduleChoice& choice) {
  const auto refuse = [](const char* option, double seconds, bool may_be_zero) {
    constexpr double kMost = 1e6;
    if (seconds <= kMost && (seconds > 0.0 || (may_be_zero && seconds == 0.0))) return;
    throw InputError(
        Problem{.file = option,
                .pointer = {},
                .problem = fmt::format("{} is not a duration a chart can show", seconds),
                .hint = fmt::format("give seconds, at most {}", kMost)});
  };
  refuse("--forward", choice.forward_s, false);
  refuse("--backward", choice.backward_s, false);
  refuse("--transfer", choice.transfer_s, true);
  refuse("--weight", choice.weight_s, true);
  if (choice.weight_s < choice.backward_s) return;
  throw InputError(Problem{.file = "--weight",
                           .pointer = {},
                           .problem = fmt::format("{} is not a part of the backward's {} seconds",
                                                  choice.weight_s, choice.backward_s),
                           .hint = "give less than --backward"});
}

// The requested shape, completed by the schedule: its chunks and the placement of its stages. A
// schedule from a file decides the whole shape. Schedules that plan by durations receive the times.
PipelineShape resolved_shape(const ScheduleChoice& choice, const Schedule& schedule) {
  if (const auto own = schedule.own_shape()) return *own;
  PipelineShape shape = placed(schedule, choice.shape);
  if (shape.chunks == 0) shape.chunks = schedule.usual_chunks();
  // The durations are those of a rank's whole part, which its chunks divide.
  const auto share = static_cast<double>(chunks_per_share(shape));
  shape.costs = {.forward_s = choice.forward_s / share,
                 .input_s = (choice.backward_s - choice.weight_s) / share,
                 .weight_s = choice.weight_s / share,
                 .transfer_s = choice.transfer_s};
  return shape;
}

Exit chart(ScheduleChoice choice) {
  if (choice.weight_s == 0.0) choice.weight_s = choice.backward_s / 2.0;
  refuse_durations(choice);
  const FoundSchedule found = chosen_schedule(choice);
  const Schedule& schedule = *found;
  const PipelineShape shape = resolved_shape(choice, schedule);
  if (const auto refusal = schedule.refusal(shape)) {
    throw InputError(Problem{.file = {},
                             .pointer = {},
                             .problem = *refusal,
                             .hint = "change --stages, --microbatches or --chunks"});
  }
  refuse_too_large(shape);
  const ScheduleLists lists = all_steps(schedule, shape);
  if (const auto fault = check_schedule(lists, shape)) throw RunError(*fault);
  const auto stages = static_cast<std::size_t>(shape.stages);
  const PlayedSchedule played =
      play_schedule(lists, shape,
                    {.forward_s = std::vector<double>(stages, choice.forward_s),
                     .backward_s = std::vector<double>(stages, choice.backward_s),
                     .weight_s = std::vector<double>(stages, choice.weight_s),
                     .transfer_s = choice.transfer_s});
  const std::size_t width = choice.width == 0 ? terminal_width() : choice.width;
  say("{}: {} stages, {} microbatches, {} chunk{}\n\n{}\n{}", schedule.name(), shape.stages,
      shape.microbatches, shape.chunks, shape.chunks == 1 ? "" : "s",
      schedule_chart(played, shape, width), schedule_table(played, shape));
  if (!choice.svg.empty())
    write_file(choice.svg,
               schedule_svg(played, shape,
                            fmt::format("{}: {} stages, {} microbatches", schedule.name(),
                                        shape.stages, shape.microbatches)));
  return Exit::Fine;
}

}  // namespace

void add_schedule(CLI::App& app, Action& action) {
  auto choice = std::make_shared<ScheduleChoice>();
  CLI::App* command =
      app.add_subcommand("schedule", "Draw a pipeline schedule with its bubble and memory");
  command
      ->add_option("name", choice->name,
                   "Schedule (see `trainyard list schedules`), or a file ending in .json")
      ->required()
      ->type_name("NAME");
  command->add_option("--stages", choice->shape.stages, "Pipeline ranks")
      ->type_name("N")
      ->check(in_range(1, 1024));
  command->add_option("--microbatches", choice->shape.microbatches, "Microbatches of a step")
      ->type_name("N")
      ->check(in_range(1, 65536));
  command->add_option("--chunks", choice->shape.chunks, "Model chunks of a rank")
      ->type_name("N")
      ->check(in_range(1, 64));
  command
      ->add_option("--group-size", choice->shape.group_size, "Interleaved: microbatches of a group")
      ->type_name("N")
      ->check(in_range(0, 65536));
  command->add_option("--forward", choice->forward_s, "Seconds of one forward")
      ->type_name("SECONDS");
  command->add_option("--backward", choice->backward_s, "Seconds of one backward")
      ->type_name("SECONDS");
  command
      ->add_option("--weight", choice->weight_s,
                   "Seconds of its weight-gradient part where split (default: half)")
      ->type_name("SECONDS");
  command
      ->add_option("--activation-limit", choice->shape.activation_limit,
                   "zb_auto: microbatches a rank may hold")
      ->type_name("N")
      ->check(in_range(1, 65536));
  command->add_option("--transfer", choice->transfer_s, "Seconds of one message")
      ->type_name("SECONDS");
  command->add_option("--width", choice->width, "Columns of the chart")
      ->type_name("N")
      ->check(in_range(20, 100000));
  add_output_file(*command, "--svg", choice->svg, "Write the chart as SVG");
  command->footer(
      "Example:\n  trainyard schedule interleaved_1f1b --stages 4 --microbatches 8 --chunks 2");
  command->callback([choice, &action] { action = [choice] { return chart(*choice); }; });
}

}  // namespace trainyard
