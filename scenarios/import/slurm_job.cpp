#include "scenarios/import/slurm_job.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "scenarios/import/launched_cluster.hpp"

namespace trainyard {

void SlurmJob::add(const LaunchOption& option, std::size_t line, const std::string& launcher) {
  const std::string& name = option.name;
  // Names hold no dashes, so only what the script writes tells "-n" from "--n".
  const auto is = [&](std::string_view brief, std::string_view full) {
    return name == full || (option.given.size() == 2 && name == brief);
  };
  const auto read = [&] { return reader_.number(launcher, option, option.value, line); };
  if (is("N", "nodes")) {
    nodes = node_count(launcher, option, line);
  } else if (is("n", "ntasks")) {
    tasks = read();
  } else if (name == "ntasks-per-node") {
    tasks_per_node = read();
  } else if (name == "gpus-per-node" || name == "gres") {
    // A --gres without GPUs (tmp:100G) does not replace the number of another option.
    if (const auto count = gpu_count(launcher, option, line)) gpus_per_node = count;
  } else if (is("G", "gpus")) {
    gpus = gpu_count(launcher, option, line);
  } else if (name == "gpus-per-task") {
    gpus_per_task = gpu_count(launcher, option, line);
  } else if (is("C", "constraint") && gpu.empty()) {
    // A constraint may name any feature of a node; only the name of a known GPU counts.
    if (!nodes_with_gpu_named(option.value).empty()) gpu = option.value;
  } else if (name == "hetjob" || name == "packjob") {
    refuse_job(reader_.file(), fmt::format("is a heterogeneous job (line {})", line),
               "give a script of one part; nodes that differ are \"others\" of a cluster");
  }
}

void SlurmJob::add_step(const LaunchCall& call) {
  // A header with --ntasks=32 and --ntasks-per-node=8 describes 4 nodes. A step with -N 2 and
  // without -n starts 8 tasks on each of its 2 nodes, so the header's 32 do not hold for it.
  const bool sized = call.last({"N", "nodes"}) != nullptr;
  if (sized && call.last({"n", "ntasks"}) == nullptr && tasks_per_node) tasks.reset();
  // GPUs that the step counts hold for it alone. Without a count, a step on other nodes has as
  // many GPUs on each as the job.
  if (call.last({"G", "gpus"}) != nullptr)
    gpus_per_node.reset();
  else if (sized && gpus_per_node)
    gpus.reset();
  for (const LaunchOption& option : call.options) add(option, call.line, "srun");
  spread_gpus();
}

void SlurmJob::spread_gpus() {
  if (!gpus) return;
  const auto share = [&](const JobNumber& by) -> std::optional<JobNumber> {
    if (gpus->value % by.value != 0) return {};
    return JobNumber{gpus->value / by.value, gpus->source + " and " + by.source};
  };
  if (nodes && !gpus_per_node) gpus_per_node = share(*nodes);
  if (!nodes && gpus_per_node) nodes = share(*gpus_per_node);
  if (!nodes && !tasks && gpus_per_task) tasks = share(*gpus_per_task);
}

std::optional<JobNumber> SlurmJob::node_count(const std::string& launcher,
                                              const LaunchOption& option, std::size_t line) {
  const std::size_t dash = option.value.find('-');
  if (dash == std::string::npos || only_shell_knows(option.value))
    return reader_.number(launcher, option, option.value, line);
  auto count = reader_.number(launcher, option, option.value.substr(dash + 1), line);
  if (count)
    assumed.push_back(
        fmt::format("{} lets Slurm choose: the job gets {} nodes", count->source, count->value));
  return count;
}

std::optional<JobNumber> SlurmJob::gpu_count(const std::string& launcher,
                                             const LaunchOption& option, std::size_t line) {
  for (const std::string& part : fields_of(option.value, ',')) {
    std::vector<std::string> words = fields_of(part, ':');
    if (option.name == "gres") {
      if (words.empty() || words.front() != "gpu") continue;
      words.erase(words.begin());
    }
    std::string count = words.empty() ? "1" : words.back();
    // Slurm may append the sockets: "8(S:0-1)".
    if (const std::size_t socket = count.find('('); socket != std::string::npos)
      count.resize(socket);
    const bool counted = whole_of(count) || only_shell_knows(count);
    if (counted && !words.empty()) words.pop_back();
    if (!words.empty()) gpu = words.front();
    return reader_.number(launcher, option, counted ? count : "1", line);
  }
  return {};
}

std::map<std::string, std::string> slurm_variables(const std::string& text) {
  std::map<std::string, std::string> names;
  std::optional<std::int64_t> nodes;
  std::optional<std::int64_t> per_node;
  const auto last_part = [](const std::string& value, char separator) {
    return value.substr(value.rfind(separator) + 1);
  };
  for (const auto& [option, line] : batch_options(text)) {
    const std::string& name = option.name;
    if (name == "N" || name == "nodes") {
      // The job gets the most nodes of a range "2-4", as in SlurmJob::node_count.
      nodes = whole_of(last_part(option.value, '-'));
    } else if (name == "n" || name == "ntasks") {
      names["SLURM_NTASKS"] = names["SLURM_NPROCS"] = option.value;
    } else if (name == "ntasks-per-node") {
      per_node = whole_of(option.value);
      names["SLURM_NTASKS_PER_NODE"] = option.value;
    } else if (name == "gpus-per-node" || name == "gres") {
      const std::string count = last_part(option.value, ':');
      if (!whole_of(count)) continue;
      names["SLURM_GPUS_ON_NODE"] = count;
      if (name == "gpus-per-node") names["SLURM_GPUS_PER_NODE"] = count;
    } else if (name == "c" || name == "cpus-per-task") {
      names["SLURM_CPUS_PER_TASK"] = option.value;
    }
  }
  if (nodes) {
    names["SLURM_NNODES"] = names["SLURM_JOB_NUM_NODES"] = std::to_string(*nodes);
    if (per_node && *nodes <= kJobNumberMost && *per_node <= kJobNumberMost &&
        !names.contains("SLURM_NTASKS"))
      names["SLURM_NTASKS"] = names["SLURM_NPROCS"] = std::to_string(*nodes * *per_node);
  }
  return names;
}

}  // namespace trainyard
