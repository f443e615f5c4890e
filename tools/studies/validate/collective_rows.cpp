#include "tools/studies/validate/collective_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/import/nccl_log.hpp"
#include "scenarios/simulate/workload_files.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/collectives/profile/measured.hpp"
#include "sim/nccl/fit/fit_machine.hpp"
#include "sim/nccl/fit/samples.hpp"
#include "tools/studies/collective/study.hpp"
#include "tools/studies/validate/dataset.hpp"

namespace trainyard {

namespace {

using nccl::fit::MeasuredPoint;
using nccl::fit::Sample;

constexpr double kSecondsPerUs = 1e-6;
constexpr std::array kGpus{"v100", "a100", "h100", "b200"};  // by nccl::Generation

// Whether NCCL chooses an algorithm for the call. all_to_all and send_recv are sends and receives
// between pairs.
bool is_chosen(const Sample& sample) {
  return sample.op != CollectiveOp::AllToAll && sample.op != CollectiveOp::SendRecv;
}

MeasuredRow row_of(const Sample& sample) {
  const nccl::Communicator& communicator = *sample.communicator;
  const std::string op(to_string(sample.op));
  return {.id = fmt::format("{}-{}-{}x{}-{}-{:.0f}", sample.source, op, communicator.nodes,
                            communicator.ranks, communicator.constants.version, sample.bytes),
          .source = sample.source,
          .complete = true,
          .description = {{"operation", op},
                          {"size", nccl::fit::kBands.at(nccl::fit::band_of(sample.bytes))},
                          {"bytes", sample.bytes},
                          {"hardware",
                           {{"gpu", kGpus.at(static_cast<std::size_t>(sample.generation()))},
                            {"num_gpus", communicator.ranks},
                            {"nodes", communicator.nodes},
                            {"nics", sample.fabric}}},
                          {"framework", "NCCL " + communicator.constants.version}},
          .step_time_s = sample.time_us * kSecondsPerUs,
          .peak_memory_gib = {}};
}

Outcome outcome_of(const nccl::fit::Constants& constants, const Sample& sample) {
  Outcome outcome{.row = row_of(sample)};
  if (!can_predict(constants, sample)) {
    outcome.reason = "no collective of its GPU's generation, or of its fabric, was fitted";
    return outcome;
  }
  const nccl::Prediction time = predicted(constants, sample);
  const std::string method = is_chosen(sample) ? to_text(sample.choice) : "peer to peer";
  outcome.predicted_s = time.time_us(sample.bytes) * kSecondsPerUs;
  outcome.parts = {{.name = "latency of " + method, .seconds = time.latency_us * kSecondsPerUs},
                   {.name = "transfer", .seconds = time.transfer_us(sample.bytes) * kSecondsPerUs}};
  // the longer part comes first
  if (outcome.parts[0].seconds < outcome.parts[1].seconds)
    std::swap(outcome.parts[0], outcome.parts[1]);
  return outcome;
}

// Whether a text is output of nccl-tests, as printed or as written by -J.
bool is_nccl_log(const std::string& text) {
  const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
  const bool json = text.find_first_of("[{") == text.find_first_not_of(" \t\r\n");
  return json ? has("\"results\"") && has("\"out_of_place\"") : has("out-of-place") && has("busbw");
}

bool is_points_table(const std::string& text) { return text.starts_with("op,dtype,gpus,"); }

bool is_points_log(const std::string& text) {
  const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
  return has("\"rows\"") && has("\"op\"") && has("\"size_bytes\"");
}

// The out-of-place times of each test, or the in-place times if it has no others.
std::vector<MeasuredPoint> points_of(const std::vector<MeasuredRun>& runs) {
  std::vector<MeasuredPoint> points;
  for (const MeasuredRun& run : runs) {
    const bool both = std::ranges::any_of(run.rows, [](const RunRow& r) { return !r.in_place; });
    for (const RunRow& row : run.rows) {
      if (both && row.in_place) continue;
      points.push_back({.op = std::string(to_string(run.op)),
                        .ranks = run.ranks,
                        .nodes = run.nodes,
                        .version = run.nccl_version,
                        .bytes = static_cast<double>(row.bytes),
                        .time_us = row.time_us,
                        .floats = row.dtype != "int8"});
    }
  }
  return points;
}

// The content decides which format the file has.
std::vector<MeasuredPoint> own_points(const std::filesystem::path& file) {
  const std::string text = as_utf8(read_file(file));
  if (is_collective_profile(text)) return points_of(read_collective_profile(file.string()).runs);
  if (is_points_table(text) || is_points_log(text)) return nccl::fit::read_points(file);
  return points_of(read_nccl_log(file.string(), text, {}));
}

// The first GPUs of the first nodes, the same number on each node. A measurement without a number
// of nodes fills one node after the other.
std::vector<std::uint32_t> group_on(const Cluster& cluster, const MeasuredPoint& point,
                                    const std::string& machine) {
  const std::uint32_t filled = cluster.facts().gpus_per_node;
  const std::uint32_t each = point.nodes > 0 ? point.ranks / point.nodes : filled;
  std::vector<std::uint32_t> gpus;
  for (std::uint32_t gpu = 0; gpu < cluster.gpus().size() && gpus.size() < point.ranks; ++gpu)
    if (cluster.local_index(gpu) < each) gpus.push_back(gpu);
  if (gpus.size() == point.ranks) return gpus;
  throw InputError(Problem{machine, "/nodes",
                           fmt::format("holds no group of {} ranks, {} on a node", point.ranks,
                                       std::min(each, point.ranks)),
                           "describe the machine that the log was measured on"});
}

// The outcome of a call that is simulated as by `trainyard collective`, on the cluster's own links.
Outcome outcome_on(const Cluster& cluster, const std::string& source, const MeasuredPoint& point,
                   const CollectiveRow& row) {
  Outcome outcome;
  outcome.row = {
      .id = fmt::format("{}-{}-{}-{:.0f}", source, point.op, point.ranks, point.bytes),
      .source = source,
      .complete = true,
      .description = {{"operation", point.op},
                      {"size", nccl::fit::kBands.at(nccl::fit::band_of(point.bytes))},
                      {"bytes", point.bytes},
                      {"hardware", {{"gpu", cluster.facts().gpu}, {"num_gpus", point.ranks}}},
                      {"framework", "NCCL " + point.version}},
      .step_time_s = point.time_us * kSecondsPerUs,
      .peak_memory_gib = {}};
  outcome.predicted_s = row.time_s;
  outcome.parts = {{.name = "latency of " + (row.choice.empty() ? "nccl" : row.choice),
                    .seconds = row.latency_s},
                   {.name = "transfer", .seconds = row.time_s - row.latency_s}};
  // the longer part comes first
  if (outcome.parts[0].seconds < outcome.parts[1].seconds)
    std::swap(outcome.parts[0], outcome.parts[1]);
  return outcome;
}

// Simulates every point of the file on a described cluster. Points that no collective describes
// (one rank, no bytes or no time) are left out.
std::vector<Outcome> outcomes_on_cluster(const std::filesystem::path& file,
                                         const std::string& machine) {
  const std::shared_ptr<const Cluster> cluster = shared_cluster(read_cluster_file(machine));
  std::vector<Outcome> outcomes;
  for (const MeasuredPoint& point : own_points(file)) {
    const auto op = nccl::fit::op_of(point.op);
    if (!op || point.ranks < 2 || point.bytes < 1.0 || point.time_us <= 0.0) continue;
    CollectiveQuestion question{.op = *op,
                                .gpus = group_on(*cluster, point, machine),
                                .algorithms = {std::string("nccl")},
                                .sizes = {static_cast<std::int64_t>(point.bytes)}};
    if (!point.version.empty()) question.nccl.version = point.version;
    const AlgorithmStudy study = study_collective(*cluster, question).algorithms.front();
    if (study.refusal) {
      Outcome refused = outcome_on(*cluster, file.stem().string(), point, {});
      refused.reason = *study.refusal;
      outcomes.push_back(std::move(refused));
    } else {
      outcomes.push_back(outcome_on(*cluster, file.stem().string(), point, study.rows.front()));
    }
  }
  return outcomes;
}

nccl::fit::Samples own_samples(const std::filesystem::path& file, const std::string& machine) {
  JsonFile platform = JsonFile::read(machine);
  return nccl::fit::samples_on(platform, file.stem().string(), own_points(file));
}

}  // namespace

bool is_collective_dataset(const std::filesystem::path& file) {
  const std::string text = as_utf8(read_file(file));
  return nccl::fit::is_measured_platform(file) || is_points_table(text) || is_points_log(text) ||
         is_nccl_log(text) || is_collective_profile(text);
}

// The machine is a cluster or a platform block in the file's .machine.json, or else a measured
// platform of NCCL's data.
std::vector<Outcome> validate_collectives(const std::filesystem::path& file) {
  const std::optional<std::filesystem::path> machine = machine_file(file);
  if (!machine && !nccl::fit::is_measured_platform(file))
    throw InputError(Problem{
        file.string(), "", "has collectives of a machine that nobody described",
        fmt::format(
            "describe it in {}: {{\"gpu\": \"h100\", \"gpus\": 8, \"nic\": 50, \"nics\": 8, "
            "\"fabric\": \"infiniband\"}}, or the cluster of a scenario",
            machine_file_name(file).string())});
  if (machine && !is_platform_block(*machine)) return outcomes_on_cluster(file, machine->string());
  const nccl::fit::Samples samples =
      machine ? own_samples(file, machine->string()) : nccl::fit::read_samples_of(file);
  const nccl::fit::Constants constants = nccl::fit::shipped_constants();
  std::vector<Outcome> outcomes;
  for (const Sample& sample : samples.rows) outcomes.push_back(outcome_of(constants, sample));
  return outcomes;
}

}  // namespace trainyard
