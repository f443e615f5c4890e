// `trainyard import chakra`: converts execution traces of other simulators and of PyTorch to a
// workload.
#include <fmt/format.h>

#include "scenarios/import/chakra/import.hpp"
#include "sim/base/files.hpp"
#include "sim/workload/workload_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"

namespace trainyard {

namespace {

struct ChakraChoice {
  std::string folder;
  std::string out;
  std::string unit = "us", durations = "best", dtype = "bf16";
  chakra::Conventions conventions;
  std::string groups;
};

chakra::Conventions conventions_of(const ChakraChoice& choice) {
  using chakra::Durations;
  chakra::Conventions conventions = choice.conventions;
  conventions.groups = choice.groups;
  conventions.duration_unit_s = choice.unit == "ns" ? 1e-9 : choice.unit == "ms" ? 1e-3 : 1e-6;
  conventions.durations = choice.durations == "recorded"   ? Durations::Recorded
                          : choice.durations == "roofline" ? Durations::Roofline
                                                           : Durations::Best;
  for (const DataType dtype :
       {DataType::Fp32, DataType::Tf32, DataType::Bf16, DataType::Fp16, DataType::Fp8})
    if (to_string(dtype) == choice.dtype) conventions.dtype = dtype;
  return conventions;
}

Exit import_traces(const ChakraChoice& choice) {
  refuse_outputs({choice.out}, {});
  const chakra::Imported imported = chakra::read_traces(choice.folder, conventions_of(choice));
  write_file(choice.out, to_json(imported.workload));
  std::size_t operations = 0;
  for (const Rank& rank : imported.workload.ranks)
    operations += imported.workload.programs[rank.program].operations.size();
  say("{} ranks, {} different programs, {} groups, {} operations ({} nodes left out)\n",
      imported.workload.ranks.size(), imported.workload.programs.size(),
      imported.workload.groups.size(), operations, imported.skipped);
  say("computation: {} by kernel, {} as recorded, {} by roofline, {} without duration or work\n",
      imported.by_kernel, imported.recorded, imported.roofline, imported.untimed);
  say("Workload  {}   (trainyard run --workload {} --cluster CLUSTER.json)\n", choice.out,
      choice.out);
  return Exit::Fine;
}

void add_conventions(CLI::App& command, ChakraChoice& choice) {
  chakra::Conventions& conventions = choice.conventions;
  command
      .add_option("--durations", choice.durations,
                  "Of computation: best (kernel shapes where known, else recorded, else roofline; "
                  "the default), recorded, or roofline (of num_ops and tensor_size)")
      ->check(CLI::IsMember({"best", "recorded", "roofline"}));
  command.add_option("--duration-unit", choice.unit, "Of recorded durations (default: us)")
      ->check(CLI::IsMember({"ns", "us", "ms"}));
  command.add_flag("--all-gather-output", conventions.all_gather_output,
                   "comm_size of an all_gather is the gathered whole (else one rank's part)");
  command.add_flag("--reduce-scatter-output", conventions.reduce_scatter_output,
                   "comm_size of a reduce_scatter is one rank's result (else the whole)");
  command.add_flag("--streams-by-kind", conventions.streams_by_kind,
                   "One stream for each kind of node, whatever the attribute stream says");
  command.add_flag("--skip-cpu", conventions.skip_cpu, "Operations of the CPU take no time");
  command.add_flag("--skip-memory", conventions.skip_memory, "Loads and stores take no time");
  command.add_option("--dtype", choice.dtype, "Precision of the roofline (default: bf16)")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16", "fp8"}));
  command.add_option("--algorithm", conventions.algorithm,
                     "Of collectives (default: nccl; see `trainyard list`)");
  command.add_option("--groups", choice.groups,
                     "Process groups the traces do not define: a file {\"1\": [0, 1], ...}");
  command
      .add_option("--dimensions", conventions.dimensions,
                  "Sizes of the dimensions that involved_dim chooses from, such as 8,4")
      ->delimiter(',');
}

}  // namespace

void add_import_chakra(CLI::App& import, Action& action) {
  auto choice = std::make_shared<ChakraChoice>();
  CLI::App* command = import.add_subcommand(
      "chakra", "A folder of Chakra execution traces, one file for each rank, as a workload");
  command->add_option("folder", choice->folder, "The folder of NAME.RANK.et files")->required();
  command->add_option("-o,--output", choice->out, "The workload file to write")->required();
  add_conventions(*command, *choice);
  command->footer(
      "Example:\n  trainyard import chakra tests/tools/chakra_traces -o step.json\n"
      "`trainyard run SCENARIO --chakra FOLDER` writes such a folder.");
  command->callback([choice, &action] { action = [choice] { return import_traces(*choice); }; });
}

}  // namespace trainyard
