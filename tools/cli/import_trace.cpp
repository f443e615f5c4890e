// `trainyard import kineto` and `nsys`: converts traces of training steps to measured kernels of a
// GPU's profile, and to a collective profile.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "kernels/bench/profile_files.hpp"
#include "kernels/gpu.hpp"
#include "scenarios/import/kineto.hpp"
#include "scenarios/import/nsys.hpp"
#include "scenarios/import/traced_collectives.hpp"
#include "scenarios/import/traced_kernels.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/median.hpp"
#include "sim/base/units.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/render/text_table.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/collective/arguments.hpp"

namespace trainyard {

namespace {

struct TraceChoice {
  std::vector<std::string> files;
  std::string gpu, out, collectives;
  std::string dtype = "bf16";
  std::string step_range;
  std::uint32_t gpus_per_node = 8;
  std::uint32_t ranks = 0;
  bool nsys = false;
};

constexpr std::size_t kMostListed = 12;

[[noreturn]] void refuse_choice(std::string problem, std::string hint) {
  throw InputError(Problem{"", "", std::move(problem), std::move(hint)});
}

std::vector<GpuTrace> read_traces(const TraceChoice& choice) {
  std::vector<GpuTrace> traces;
  for (const std::string& file : choice.files) {
    if (choice.nsys) {
      for (GpuTrace& trace : read_nsys(file, {.step_range = choice.step_range}))
        traces.push_back(std::move(trace));
      continue;
    }
    if (is_sqlite(file))
      throw InputError(Problem{file, "", "is an SQLite database", "trainyard import nsys " + file});
    traces.push_back(read_kineto(file));
    if (traces.back().simulated) {
      throw InputError(Problem{file, "", "is a trace that trainyard wrote, which measures nothing",
                               "give a trace of torch.profiler"});
    }
  }
  return traces;
}

// All traces must be of one type of GPU, and it must have the SMs of the profile. Traces and
// profiles name GPUs differently ("NVIDIA H100 80GB HBM3" and "h100"), so the number of SMs tells
// whether they agree.
void refuse_other_gpus(const std::vector<GpuTrace>& traces, const TraceChoice& choice) {
  for (const GpuTrace& trace : traces) {
    if (trace.gpu != traces.front().gpu)
      throw InputError(Problem{trace.file, "",
                               fmt::format("is of a {}, and {} of a {}", trace.gpu,
                                           traces.front().file, traces.front().gpu),
                               "import the traces of one type of GPU at a time"});
    if (choice.gpu.empty() || trace.sms == 0) continue;
    const GpuSheet sheet = load_gpu_sheet(choice.gpu);
    if (trace.sms == sheet.sms) continue;
    throw InputError(
        Problem{trace.file, "",
                fmt::format("is of a GPU with {} SMs ({}), and {} has {}", trace.sms, trace.gpu,
                            choice.gpu, sheet.sms),
                "name its profile with --gpu (trainyard list gpus), or one of your own"});
  }
}

std::string traces_text(const std::vector<GpuTrace>& traces) {
  std::string text;
  for (const GpuTrace& trace : traces) {
    text += fmt::format("{}: {} kernels", trace.file, trace.kernels.size());
    if (!trace.steps.empty()) text += fmt::format(" in {} steps", trace.steps.size());
    if (trace.rank) text += fmt::format(", rank {}", *trace.rank);
    if (!trace.gpu.empty()) text += ", " + trace.gpu;
    if (!trace.software.empty()) text += ", " + trace.software;
    text += "\n";
  }
  return text;
}

// "gemm", "attention", "norm" ...: the first word of the kernel's text.
std::string kernel_word(const Kernel& kernel) {
  const std::string text = to_text(kernel);
  return text.substr(0, text.find(' '));
}

std::string rows_text(const TracedKernels& kernels) {
  struct Sum {
    std::size_t shapes = 0, repetitions = 0;
    double seconds = 0.0;
  };
  std::map<std::string, Sum> sums;
  for (const TracedRow& row : kernels.rows) {
    Sum& sum = sums[kernel_word(row.kernel)];
    ++sum.shapes;
    sum.repetitions += row.times_us.size();
    for (const double time_us : row.times_us) sum.seconds += time_us * 1e-6;
  }
  TextTable table({"kernels with a shape", "shapes", "repetitions", "time", "of all"});
  for (const auto& [word, sum] : sums)
    table.row({word, std::to_string(sum.shapes), std::to_string(sum.repetitions),
               to_text(Seconds{sum.seconds}), percent(sum.seconds / kernels.seconds)});
  return "\n" + table.text();
}

std::string unclassified_text(const TracedKernels& kernels) {
  if (kernels.unclassified.empty()) return "";
  const double left = kernels.seconds - kernels.classified_s;
  std::string text = fmt::format("\nWithout a shape: {} of the time of kernels and copies\n",
                                 percent(kernels.seconds > 0.0 ? left / kernels.seconds : 0.0));
  std::size_t listed = 0;
  for (const UnclassifiedKernels& entry : kernels.unclassified) {
    if (listed++ == kMostListed) break;
    constexpr std::size_t most_letters = 60;
    text += wrapped(fmt::format("  {:>7} in {} of {}: {}", percent(entry.share), entry.kernels,
                                entry.name.substr(0, most_letters), entry.reason),
                    4);
  }
  if (kernels.unclassified.size() > kMostListed)
    text += fmt::format("  and {} more\n", kernels.unclassified.size() - kMostListed);
  return text;
}

std::string collectives_text(const TracedCollectives& found) {
  std::string text;
  if (!found.runs.empty()) {
    TextTable table({"collectives", "ranks", "nodes", "size", "time (us)", "busbw (GB/s)"});
    for (const MeasuredRun& run : found.runs)
      for (const RunRow& row : run.rows)
        table.row({fmt::format("{} {}", to_string(run.op), row.dtype), std::to_string(run.ranks),
                   std::to_string(run.nodes), size_text(row.bytes),
                   fmt::format("{:.2f}", row.time_us), fmt::format("{:.2f}", row.busbw_GBps)});
    text += "\n" + table.text();
  }
  if (found.left_out > 0)
    text += fmt::format("\n{} communication kernels of {} have no row\n", found.left_out,
                        to_text(Seconds{found.left_out_s}));
  for (const std::string& reason : found.reasons) text += wrapped("  - " + reason, 4);
  return text;
}

std::string assumed_text(const std::vector<std::string>& assumptions) {
  std::string text = "\nAssumed\n";
  for (const std::string& line : assumptions) text += wrapped("  - " + line, 4);
  return text;
}

DataType chosen_dtype(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(DataType::Fp8); ++i)
    if (to_string(static_cast<DataType>(i)) == name) return static_cast<DataType>(i);
  refuse_choice(fmt::format("--dtype is \"{}\"", name), "use bf16, fp16, fp8, fp32 or tf32");
}

nlohmann::ordered_json provenance_of(const std::vector<GpuTrace>& traces) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  std::set<std::string> software;
  for (const GpuTrace& trace : traces) {
    files.push_back(trace.file);
    if (!trace.software.empty()) software.insert(trace.software);
  }
  nlohmann::ordered_json provenance = {{"gpu", traces.front().gpu}, {"date", import_date()}};
  if (!software.empty()) provenance["software"] = fmt::format("{}", fmt::join(software, ", "));
  provenance["traces"] = std::move(files);
  return provenance;
}

// Leaves out rows that are faster than the GPU's peak rate allows: their shape, their precision or
// the profile is wrong.
void leave_out_impossible(TracedKernels& kernels, const std::string& gpu) {
  const GpuSheet sheet = load_gpu_sheet(gpu);
  const auto impossible = [&](const TracedRow& row) {
    DataType dtype = DataType::Bf16;
    if (const auto* gemm = std::get_if<Gemm>(&row.kernel)) dtype = gemm->dtype;
    if (const auto* attention = std::get_if<Attention>(&row.kernel)) dtype = attention->dtype;
    const FlopsPerSecond peak = sheet.peak(dtype);
    constexpr double clock_margin = 1.1;  // a boost clock above that of the data sheet
    return peak.value() > 0.0 &&
           flops(row.kernel) / (peak * clock_margin) > Seconds{median(row.times_us) * 1e-6};
  };
  for (const TracedRow& row : kernels.rows) {
    if (!impossible(row)) continue;
    UnclassifiedKernels entry{.name = to_text(row.kernel),
                              .reason = "faster than the peak rate of " + gpu +
                                        " allows: is it another GPU, shape or precision?",
                              .kernels = row.times_us.size()};
    for (const double time_us : row.times_us) entry.seconds += time_us * 1e-6;
    entry.share = entry.seconds / kernels.seconds;
    kernels.classified_s -= entry.seconds;
    kernels.unclassified.insert(kernels.unclassified.begin(), std::move(entry));
  }
  std::erase_if(kernels.rows, impossible);
}

// Writes the profile of the GPU with the kernels of the traces in it.
void write_kernels(const TraceChoice& choice, const std::vector<GpuTrace>& traces,
                   const TracedKernels& kernels) {
  if (kernels.rows.empty()) {
    const std::string record = choice.nsys ? "record with torch.autograd.profiler.emit_nvtx("
                                             "record_shapes=True) and nsys profile "
                                             "--trace=cuda,nvtx"
                                           : "record with torch.profiler.profile("
                                             "record_shapes=True)";
    std::string problem = "has no shapes of operations";
    if (kernels.shapes > 0 && !kernels.unclassified.empty()) {
      const UnclassifiedKernels& most = kernels.unclassified.front();
      problem = fmt::format("has no kernel that can be taken: {} is {}", most.name, most.reason);
    }
    throw InputError(Problem{traces.front().file, "", problem, record});
  }
  std::vector<bench::TracedKernelRow> rows;
  for (const TracedRow& row : kernels.rows)
    rows.push_back({.kernel = row.kernel,
                    .time_us = median(row.times_us),
                    .repetitions = row.times_us.size()});
  const std::filesystem::path base = data_file("kernels/profiles", choice.gpu);
  const auto document = parse_json(base.string(), read_file(base));
  write_file(choice.out, to_text(bench::with_traced(document, rows, provenance_of(traces)), 1));
  // Reads the profile back, so that an invalid one is reported now and not in the next run.
  (void)load_cost_model(choice.out);
}

void refuse_missing_outputs(const TraceChoice& choice) {
  if (choice.out.empty() && choice.collectives.empty())
    refuse_choice("nothing says what to write",
                  "--gpu NAME -o profile.json for kernels, or --collectives profile.json");
  if (!choice.out.empty() && choice.gpu.empty())
    refuse_choice("-o needs --gpu, the profile that the measured kernels complete",
                  "add --gpu with a name of `trainyard list gpus`, or a profile of your own");
  if (choice.gpus_per_node == 0)
    refuse_choice("--gpus-per-node is 0", "give the GPUs of one node, such as 8");
  refuse_outputs({choice.out, choice.collectives}, {choice.files.begin(), choice.files.end()});
}

Exit import_traces(const TraceChoice& choice) {
  refuse_missing_outputs(choice);
  const DataType dtype = chosen_dtype(choice.dtype);
  const std::vector<GpuTrace> traces = read_traces(choice);
  refuse_other_gpus(traces, choice);
  std::string text = traces_text(traces);
  std::string written;
  std::vector<std::string> assumptions;
  if (!choice.out.empty()) {
    TracedKernels kernels = traced_kernels(traces, {.dtype = dtype});
    leave_out_impossible(kernels, choice.gpu);
    write_kernels(choice, traces, kernels);
    text += rows_text(kernels) + unclassified_text(kernels);
    assumptions = kernels.assumptions;
    assumptions.emplace_back(
        "a kernel takes the median of its repetitions, with what communication at the same time "
        "cost it");
    written += fmt::format("Kernels      {}   (--set cluster.node.gpu=./{})\n", choice.out,
                           std::filesystem::path(choice.out).filename().string());
  }
  if (!choice.collectives.empty()) {
    const TracedCollectives found =
        traced_collectives(traces, {.gpus_per_node = choice.gpus_per_node, .ranks = choice.ranks});
    if (found.runs.empty()) {
      throw InputError(
          Problem{traces.front().file, "", "has no collective with its size and ranks",
                  found.reasons.empty() ? "record a run of several ranks" : found.reasons.front()});
    }
    const CollectiveProfile profile = make_collective_profile(found.runs, import_date());
    write_file(choice.collectives, to_text(to_json(profile), 1));
    text += collectives_text(found);
    assumptions.insert(assumptions.end(), found.assumptions.begin(), found.assumptions.end());
    written += fmt::format("Collectives  {}   (trainyard collective ... --profile {})\n",
                           choice.collectives, choice.collectives);
  }
  say("{}{}\n{}", text, assumed_text(assumptions), written);
  return Exit::Fine;
}

// Options that both formats have.
void add_trace_options(CLI::App& command, TraceChoice& choice) {
  command.add_option("--gpu", choice.gpu,
                     "The GPU's profile that the measured kernels complete: a name of `trainyard "
                     "list gpus`, or a file");
  command.add_option("-o,--output", choice.out,
                     "Write that profile with the kernels in it, for use in a cluster's node");
  command.add_option("--collectives", choice.collectives,
                     "Write the collectives as a profile, as import nccl-tests does");
  command
      .add_option("--gpus-per-node", choice.gpus_per_node,
                  "GPUs of a node, for the nodes of a collective's group")
      ->capture_default_str();
  command
      .add_option("--dtype", choice.dtype,
                  "Precision of operations for which neither the trace nor the kernel's name "
                  "states one")
      ->capture_default_str();
}

}  // namespace

void add_import_kineto(CLI::App& import, Action& action) {
  auto choice = std::make_shared<TraceChoice>();
  CLI::App* command = import.add_subcommand(
      "kineto", "Traces of the PyTorch profiler, as measured kernels and collectives");
  command->add_option("files", choice->files, "Traces of one or more ranks (.json, .json.gz)")
      ->required();
  add_trace_options(*command, *choice);
  command->footer(
      "Example:\n  trainyard import kineto tests/scenarios/import/traces/kineto.json --gpu h100 "
      "-o my_h100.json\n"
      "  trainyard import kineto tests/scenarios/import/traces/kineto.json --collectives "
      "collectives.json");
  command->callback([choice, &action] { action = [choice] { return import_traces(*choice); }; });
}

void add_import_nsys(CLI::App& import, Action& action) {
  auto choice = std::make_shared<TraceChoice>();
  choice->nsys = true;
  CLI::App* command = import.add_subcommand(
      "nsys", "SQLite exports of Nsight Systems, as measured kernels and collectives");
  command->add_option("files", choice->files, "Files of nsys export --type sqlite")->required();
  add_trace_options(*command, *choice);
  command->add_option("--ranks", choice->ranks,
                      "Ranks of a collective's group, which an export does not state");
  command->footer(
      "Example:\n  trainyard import nsys report.sqlite --gpu h100 -o my_h100.json\n"
      "  trainyard import nsys report.sqlite --ranks 8 --collectives collectives.json");
  command->callback([choice, &action] { action = [choice] { return import_traces(*choice); }; });
}

}  // namespace trainyard
