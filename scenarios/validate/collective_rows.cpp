#include "scenarios/validate/collective_rows.hpp"

#include <fmt/format.h>

#include "models/collectives/nccl/fit/fit_machine.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/utf8.hpp"

namespace trainyard {

namespace {

using nccl::fit::Sample;

constexpr double kSecondsPerUs = 1e-6;
constexpr std::array kGpus{"v100", "a100", "h100", "b200"};  // by nccl::Generation

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
  if (outcome.parts[0].seconds < outcome.parts[1].seconds)
    std::swap(outcome.parts[0], outcome.parts[1]);
  return outcome;
}

}  // namespace

bool is_collective_dataset(const std::filesystem::path& file) {
  const std::string text = as_utf8(read_file(file));
  if (nccl::fit::is_measured_platform(file) || text.starts_with("op,dtype,gpus,")) return true;
  const auto has = [&](const char* key) { return text.find(key) != std::string::npos; };
  return has("\"rows\"") && has("\"op\"") && has("\"size_bytes\"");
}

std::vector<Outcome> validate_collectives(const std::filesystem::path& file) {
  if (!nccl::fit::is_measured_platform(file))
    throw InputError(
        Problem{file.string(), "", "has collectives of a machine that nobody described",
                "add its name, without the extension, to "
                "models/collectives/nccl/data/measured_platforms.json (its GPU must be "
                "NVIDIA's), or put the log beside predictions of your own cluster: "
                "trainyard collective OP --measured LOG"});
  const nccl::fit::Samples samples = nccl::fit::read_samples_of(file);
  const nccl::fit::Constants constants = nccl::fit::shipped_constants();
  std::vector<Outcome> outcomes;
  for (const Sample& sample : samples.rows) outcomes.push_back(outcome_of(constants, sample));
  return outcomes;
}

}  // namespace trainyard
