#include "tools/studies/validate/step_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kWorthClosing = 0.02;  // of the measured step
constexpr std::size_t kNamed = 3;       // differences in the sentence
constexpr double kNoDifference_s = 1e-9;

std::string milliseconds(double seconds) { return fmt::format("{:.2f} ms", 1e3 * seconds); }
std::string signed_milliseconds(double seconds) { return fmt::format("{:+.2f} ms", 1e3 * seconds); }

std::string ratio(double simulated, double measured) {
  return measured > 0.0 ? signed_percent(simulated / measured - 1.0) : "";
}

KindTime time_of(const StepProfile& profile, OperationKind kind) {
  const auto found = profile.kinds.find(kind);
  return found == profile.kinds.end() ? KindTime{} : found->second;
}

// A line of the table: a kind, or one of the two lines that are none.
struct DiffLine {
  std::string name;
  double simulated_s = 0.0;
  double measured_s = 0.0;
  [[nodiscard]] double difference_s() const { return simulated_s - measured_s; }
};
constexpr const char* kExposed = "exposed communication";
constexpr const char* kIdle = "idle";

std::vector<DiffLine> lines_of(const StepDiff& diff) {
  std::vector<DiffLine> lines;
  for (const KindDiff& kind : diff.kinds)
    lines.push_back(
        {std::string(to_string(kind.kind)), kind.simulated.seconds, kind.measured.seconds});
  lines.push_back({kExposed, diff.simulated.exposed_s, diff.measured.exposed_s});
  lines.push_back({kIdle, diff.simulated.idle_s, diff.measured.idle_s});
  return lines;
}

// Communication makes a step longer only where no other kernel runs beside it, so the sentence
// leaves out the kinds of communication and has the line of exposed communication instead.
std::string largest_differences(const StepDiff& diff) {
  std::vector<DiffLine> lines = lines_of(diff);
  std::erase_if(lines, [](const DiffLine& line) {
    const auto kinds = {OperationKind::AllReduce,     OperationKind::AllGather,
                        OperationKind::ReduceScatter, OperationKind::AllToAll,
                        OperationKind::SendRecv,      OperationKind::Broadcast,
                        OperationKind::Reduce};
    const bool hidden = std::ranges::any_of(
        kinds, [&](OperationKind kind) { return line.name == to_string(kind); });
    return hidden || std::abs(line.difference_s()) < kNoDifference_s;
  });
  std::ranges::stable_sort(lines, std::greater<>(),
                           [](const DiffLine& line) { return std::abs(line.difference_s()); });
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, lines.size()); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", lines[i].name,
                        signed_milliseconds(lines[i].difference_s()));
  return text;
}

// "The simulated step is 0.34 ms (2.5 %) shorter than the measured one: gemm -0.21 ms, ...".
std::string sentence(const StepDiff& diff) {
  const double apart = diff.simulated.step_s - diff.measured.step_s;
  const std::string text =
      std::abs(apart) < kNoDifference_s
          ? std::string("The simulated step is as long as the measured one")
          : fmt::format("The simulated step is {} ({}) {} than the measured one",
                        milliseconds(std::abs(apart)),
                        percent(std::abs(apart) / diff.measured.step_s),
                        apart < 0.0 ? "shorter" : "longer");
  const std::string named = diff.kinds.empty() ? "" : largest_differences(diff);
  return text + (named.empty() ? "." : ": " + named + ".");
}

std::string table_of(const StepDiff& diff) {
  TextTable table({"operations of the rank", "simulated", "measured", "difference", "of the step",
                   "relative", "kernels"});
  const auto row = [&](const DiffLine& line, const std::string& kernels) {
    table.row({line.name, milliseconds(line.simulated_s), milliseconds(line.measured_s),
               signed_milliseconds(line.difference_s()),
               signed_percent(line.difference_s() / diff.measured.step_s),
               ratio(line.simulated_s, line.measured_s), kernels});
  };
  const std::vector<DiffLine> lines = lines_of(diff);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool kind = i < diff.kinds.size();
    row(lines[i], kind ? fmt::format("{:.0f} / {:.0f}", diff.kinds[i].simulated.kernels,
                                     diff.kinds[i].measured.kernels)
                       : "");
  }
  row({"step", diff.simulated.step_s, diff.measured.step_s}, "");
  return table.text();
}

// The change of a constant that would close the gap. A kind that only one side has is no constant's
// fault, so it gets a question instead.
std::string remedy(const DiffLine& line, const std::string& gpu) {
  if (line.name == kIdle)
    return "\"host\" (models/hosts): how fast the CPU issues kernels, and the time between steps";
  if (line.name == kExposed)
    return "overlap_grad_reduce, overlap_param_gather, overlap_p2p and the sizes of buckets";
  if (!(line.simulated_s > 0.0)) return "nothing of the kind is simulated: is the model the same?";
  if (!(line.measured_s > 0.0)) return "nothing of the kind was measured: is it fused into others?";
  const double factor = line.measured_s / line.simulated_s;
  const auto communicates = [&](OperationKind kind) {
    return is_communication(kind) && line.name == to_string(kind);
  };
  for (std::size_t kind = 0; kind < kOperationKinds; ++kind)
    if (communicates(static_cast<OperationKind>(kind)))
      return fmt::format("a measured profile of {} (import kineto --collectives; rate x {:.3f})",
                         line.name, 1.0 / factor);
  if (line.name == to_string(OperationKind::Gemm))
    return fmt::format(
        "kernels/profiles/{}.json#/gemm/sustained_time/value x {:.3f}, or the "
        "trace's own kernels (import kineto --gpu {} -o)",
        gpu, factor, gpu);
  return fmt::format("the {} figures of kernels/profiles/{}.json: time x {:.3f}", line.name, gpu,
                     factor);
}

std::string remedies(const StepDiff& diff, const std::string& gpu) {
  std::string text;
  for (const DiffLine& line : lines_of(diff)) {
    if (std::abs(line.difference_s()) < kWorthClosing * diff.measured.step_s) continue;
    text += wrapped(fmt::format("  {}: {}", line.name, remedy(line, gpu)), 6);
  }
  return text.empty() ? "" : "\nWhat would close it\n" + text;
}

std::string rank_text(const StepDiff& diff, const std::string& gpu) {
  std::string text = fmt::format(
      "Rank {}, {}: step simulated {}, measured {}{}, {}\n", diff.simulated.rank.value_or(0),
      diff.measured.source, milliseconds(diff.simulated.step_s), milliseconds(diff.measured.step_s),
      diff.measured.steps > 1 ? fmt::format(" (median of {})", diff.measured.steps) : "",
      ratio(diff.simulated.step_s, diff.measured.step_s));
  text += wrapped(sentence(diff), 0);
  if (diff.kinds.empty())
    return text + "Only step times were given: a trace would say where they part\n";
  text += "\n" + table_of(diff) +
          "\nKernels may overlap: the time in which others compute, exposed communication and idle "
          "add up\nto the step\n";
  text += "\nAssumed\n";
  for (const std::string& line : diff.assumptions) text += wrapped("  - " + line, 4);
  return text + remedies(diff, gpu);
}

std::string ranks_text(const std::vector<StepDiff>& ranks) {
  TextTable table({"rank", "step simulated", "measured", "", "exposed simulated", "measured",
                   "idle simulated", "measured"});
  for (const StepDiff& diff : ranks)
    table.row({std::to_string(diff.simulated.rank.value_or(0)), milliseconds(diff.simulated.step_s),
               milliseconds(diff.measured.step_s),
               ratio(diff.simulated.step_s, diff.measured.step_s),
               milliseconds(diff.simulated.exposed_s), milliseconds(diff.measured.exposed_s),
               milliseconds(diff.simulated.idle_s), milliseconds(diff.measured.idle_s)});
  return table.text();
}

Json pair_json(double simulated_s, double measured_s) {
  return {{"simulated_s", simulated_s},
          {"measured_s", measured_s},
          {"difference_s", simulated_s - measured_s}};
}

Json rank_json(const StepDiff& diff) {
  Json json = {{"rank", diff.simulated.rank.value_or(0)},
               {"trace", diff.measured.source},
               {"steps", diff.measured.steps},
               {"step", pair_json(diff.simulated.step_s, diff.measured.step_s)},
               {"kinds", Json::array()}};
  for (const KindDiff& kind : diff.kinds) {
    Json entry = {{"kind", to_string(kind.kind)}};
    entry.update(pair_json(kind.simulated.seconds, kind.measured.seconds));
    entry["simulated_kernels"] = std::llround(kind.simulated.kernels);
    entry["measured_kernels"] = std::llround(kind.measured.kernels);
    json["kinds"].push_back(std::move(entry));
  }
  const bool known = !diff.kinds.empty();
  json["exposed_communication"] =
      known ? pair_json(diff.simulated.exposed_s, diff.measured.exposed_s) : Json();
  json["idle"] = known ? pair_json(diff.simulated.idle_s, diff.measured.idle_s) : Json();
  json["summary"] = sentence(diff);
  json["assumptions"] = diff.assumptions;
  return json;
}

// Both sides need the same kinds, else a difference would only show how the trace names its
// kernels.
void merge_all_to_all(StepProfile& profile) {
  const auto found = profile.kinds.find(OperationKind::AllToAll);
  if (found == profile.kinds.end()) return;
  KindTime& messages = profile.kinds[OperationKind::SendRecv];
  messages.seconds += found->second.seconds;
  messages.kernels += found->second.kernels;
  profile.kinds.erase(found);
}

}  // namespace

StepDiff step_diff(StepProfile simulated, StepProfile measured) {
  StepDiff diff{.assumptions = measured.assumptions};
  if (!measured.tells_all_to_all) {
    merge_all_to_all(simulated);
    merge_all_to_all(measured);
    diff.assumptions.emplace_back(
        "all_to_all counts as send_recv, in both: the trace does not name the collective of "
        "NCCL's SendRecv kernels");
  }
  if (!measured.kinds.empty()) {
    std::set<OperationKind> kinds;
    for (const StepProfile* profile : {&simulated, &measured})
      for (const auto& [kind, time] : profile->kinds) kinds.insert(kind);
    for (const OperationKind kind : kinds)
      diff.kinds.push_back({kind, time_of(simulated, kind), time_of(measured, kind)});
    diff.assumptions.emplace_back(
        "communication includes waiting for ranks that arrive later, in both");
  }
  std::ranges::stable_sort(diff.kinds, std::greater<>(),
                           [](const KindDiff& kind) { return std::abs(kind.difference_s()); });
  diff.simulated = std::move(simulated);
  diff.measured = std::move(measured);
  return diff;
}

std::string diff_text(const std::vector<StepDiff>& ranks, const std::string& gpu) {
  std::string text = ranks.size() > 1 ? ranks_text(ranks) + "\n" : "";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    text += (i == 0 ? "" : "\n") + rank_text(ranks[i], gpu);
  return text;
}

nlohmann::ordered_json diff_json(const std::vector<StepDiff>& ranks) {
  Json all = Json::array();
  for (const StepDiff& diff : ranks) all.push_back(rank_json(diff));
  return {{"schema", "trainyard.step_diff"}, {"version", 1}, {"ranks", std::move(all)}};
}

namespace {

// The rank of each measured step: that of --rank, else the one that the trace names, else the
// number of the trace.
void choose_ranks(const TraceQuestion& question, std::vector<StepProfile>& measured) {
  if (!question.ranks.empty() && question.ranks.size() != measured.size()) {
    throw InputError(Problem{
        "--rank", "", fmt::format("{} ranks for {} traces", question.ranks.size(), measured.size()),
        "give one for each trace, in their order"});
  }
  for (std::size_t i = 0; i < measured.size(); ++i) {
    StepProfile& profile = measured[i];
    if (!question.ranks.empty()) {
      profile.rank = question.ranks[i];
    } else if (!profile.rank) {
      profile.rank = static_cast<std::uint32_t>(i);
      if (!profile.kinds.empty())
        profile.assumptions.push_back(fmt::format(
            "the trace does not name its rank, and is compared with rank {} (--rank)", i));
    }
  }
}

}  // namespace

std::vector<StepProfile> measured_steps(const TraceQuestion& question) {
  std::vector<StepProfile> measured;
  for (const std::string& file : question.files)
    for (StepProfile& profile : read_step_profiles(file, {.step_range = question.step_range}))
      measured.push_back(std::move(profile));
  choose_ranks(question, measured);
  return measured;
}

std::vector<StepDiff> step_diffs(const Result& run, std::vector<StepProfile> measured) {
  std::vector<StepDiff> ranks;
  for (StepProfile& profile : measured) {
    const std::uint32_t rank = profile.rank.value_or(0);
    if (rank >= run.workload->ranks.size()) {
      throw InputError(Problem{profile.source, "", fmt::format("{} is no rank of the run", rank),
                               fmt::format("it has ranks 0 to {}; name one with --rank",
                                           run.workload->ranks.size() - 1)});
    }
    ranks.push_back(step_diff(step_profile(run, rank), std::move(profile)));
  }
  return ranks;
}

}  // namespace trainyard
