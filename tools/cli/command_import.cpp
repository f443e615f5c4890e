// `trainyard import`: converts files of other programs into files that trainyard reads.
#include <algorithm>
#include <array>
#include <filesystem>

#include "scenarios/import/hf_config.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/import_format.hpp"

namespace trainyard {

namespace {

bool holds(const ImportSample& sample, std::string_view text) {
  return sample.text.find(text) != std::string::npos;
}

// The signs of the formats. `import --guess` refuses a file with the signs of two formats, so each
// one tests for words that files of the others do not contain.
bool is_chakra(const ImportSample& sample) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(sample.file, error))
    if (entry.path().extension() == ".et") return true;
  return false;
}

bool is_model(const ImportSample& sample) { return is_hf_config(sample.document); }

bool is_ib_fabric(const ImportSample& sample) {
  const bool cables = holds(sample, "==(") && holds(sample, "LinkUp");  // iblinkinfo
  return cables || holds(sample, "switchguid=");
}

bool is_kineto(const ImportSample& sample) {
  return holds(sample, "\"traceEvents\"") || holds(sample, "\"deviceProperties\"");
}

bool is_nsys(const ImportSample& sample) { return sample.text.starts_with("SQLite format 3"); }

// A launch of Megatron-LM is a format of its own.
bool is_launch(const ImportSample& sample) {
  if (sample.document.is_object() || holds(sample, "--num-layers") ||
      holds(sample, "--tensor-model-parallel-size"))
    return false;
  constexpr std::array kLaunchers{"#SBATCH",           "srun ",         "torchrun ",
                                  "mpirun ",           "horovodrun",    "deepspeed ",
                                  "accelerate launch", "ScalingConfig("};
  return std::ranges::any_of(kLaunchers, [&](const char* word) { return holds(sample, word); });
}

bool is_nccl_log(const ImportSample& sample) {
  return (holds(sample, "algbw") && holds(sample, "busbw")) || holds(sample, "nThread");
}

bool is_nccl_topology(const ImportSample& sample) {
  return holds(sample, "<system") && holds(sample, "<cpu");
}

bool is_topology_matrix(const ImportSample& sample) {
  return holds(sample, "GPU0") && (holds(sample, "CPU Affinity") || holds(sample, " X "));
}

// A format that makes something other than a scenario has a function, which adds its subcommand,
// and a row.
struct Row {
  void (*add)(CLI::App&, Action&);
  const char* name;
  const char* what;
  const char* options;
  bool (*looks_like)(const ImportSample&);
};
constexpr Row kOthers[] = {
    {add_import_chakra, "chakra", "A folder of Chakra execution traces", "-o OUT.json", is_chakra},
    {add_import_hf_config, "hf-config", "The config.json of a model on Hugging Face", "-o OUT.json",
     is_model},
    {add_import_ib_fabric, "ib-fabric", "The output of ibnetdiscover or iblinkinfo",
     "--node NODE -o OUT.json", is_ib_fabric},
    {add_import_launch, "launch", "A script that launches a job", "--node NODE -o OUT.json",
     is_launch},
    {add_import_kineto, "kineto", "Traces of the PyTorch profiler", "--gpu GPU -o OUT.json",
     is_kineto},
    {add_import_nsys, "nsys", "Exports of Nsight Systems (SQLite)", "--gpu GPU -o OUT.json",
     is_nsys},
    {add_import_nccl_tests, "nccl-tests", "Logs of nccl-tests", "-o OUT.json", is_nccl_log},
    {add_import_nccl_topo, "nccl-topo", "The XML of NCCL_TOPO_DUMP_FILE", "-o OUT.json",
     is_nccl_topology},
    {add_import_topo_m, "topo-m", "The text of `nvidia-smi topo -m`", "--gpu GPU -o OUT.json",
     is_topology_matrix},
};

std::vector<ImportFormat> all_formats() {
  std::vector<ImportFormat> all;
  for (const Row& row : kOthers)
    all.push_back({.name = row.name,
                   .what = row.what,
                   .options = row.options,
                   .looks_like = row.looks_like,
                   .add = row.add});
  for (const TrainingFormat& row : training_formats())
    all.push_back({.name = std::string(row.name),
                   .what = std::string(row.what),
                   .options = "--node NODE -o OUT.json",
                   .looks_like = row.looks_like,
                   .add = [&row](CLI::App& import, Action& action) {
                     add_import_training(row, import, action);
                   }});
  std::ranges::sort(all, {}, &ImportFormat::name);
  return all;
}

}  // namespace

const std::vector<ImportFormat>& import_formats() {
  static const std::vector<ImportFormat> formats = all_formats();
  return formats;
}

void add_import(CLI::App& app, Action& action) {
  CLI::App* import =
      app.add_subcommand("import", "Read what other programs measured, found or wrote");
  import->require_subcommand(0, 1);
  for (const ImportFormat& format : import_formats()) format.add(*import, action);
  add_import_guess(*import, action);
  import->footer(
      "Example:\n  trainyard import --guess tests/scenarios/import/torchtitan/llama3_8b.toml");
}

}  // namespace trainyard
