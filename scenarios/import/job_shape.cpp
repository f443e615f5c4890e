#include "scenarios/import/job_shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "scenarios/import/launch_arguments.hpp"
#include "scenarios/import/launch_script.hpp"
#include "scenarios/import/ray_config.hpp"
#include "scenarios/import/slurm_job.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

// A script is read in this order: the #SBATCH header, then the launchers that it calls. Of these,
// main_call() chooses the one that starts the training. Its own options come first; what they leave
// open comes from the srun around it and from the header (complete), and at the end all numbers are
// compared (check). A number that only the shell knows counts as not stated, so another place may
// supply it. Every number keeps the place where it is written, for messages.
namespace {

// Orders launchers by how close they are to the training. srun may only start one torchrun on each
// node, and ray only submits a job.
int rank_of(const LaunchCall& call) {
  if (call.launcher == "ray") return 0;
  return call.launcher == "srun" ? 1 : 2;
}

// Scripts also run small programs under srun or mpirun, such as `srun hostname` for the address of
// the first node. These calls do not say how large the training is.
bool is_housekeeping(const LaunchCall& call) {
  constexpr std::array<std::string_view, 12> kPrograms = {
      "hostname", "scontrol", "nvidia-smi", "mkdir", "cp",   "rm",
      "sleep",    "rsync",    "ls",         "cat",   "date", "echo"};
  const std::string& program = call.program;
  return std::ranges::find(kPrograms, program.substr(program.rfind('/') + 1)) != kPrograms.end();
}

// Returns the last call that launches processes; torchrun and its kind before srun alone. Returns
// nothing where only ray is called: the size of that job is in a Python script.
std::optional<std::size_t> main_call(const std::vector<LaunchCall>& calls) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (is_housekeeping(calls[i])) continue;
    if (!best || rank_of(calls[i]) >= rank_of(calls[*best])) best = i;
  }
  if (best && calls[*best].launcher == "ray") return {};
  return best;
}

// The options of a call that are numbers, without those that differ from node to node.
std::map<std::string, std::string> numbers_of(const LaunchCall& call) {
  std::map<std::string, std::string> numbers;
  for (const LaunchOption& option : call.options)
    if (whole_of(option.value)) numbers[option.name] = option.value;
  for (const char* of_node : {"node-rank", "machine-rank", "master-port", "main-process-port"})
    numbers.erase(of_node);
  return numbers;
}

// A script may launch several times. Returns a sentence where other launches have other numbers.
std::optional<std::string> other_launches(const std::vector<LaunchCall>& calls,
                                          std::size_t chosen) {
  const LaunchCall& call = calls[chosen];
  std::vector<std::string> lines;
  for (const LaunchCall& other : calls)
    if (&other != &call && other.launcher == call.launcher && !is_housekeeping(other) &&
        numbers_of(other) != numbers_of(call))
      lines.push_back(std::to_string(other.line));
  if (lines.empty()) return {};
  return fmt::format("{} of line {} is the training; launches in line{} {} have other numbers",
                     call.launcher, call.line, lines.size() == 1 ? "" : "s",
                     fmt::join(lines, ", "));
}

class ShapeReader {
 public:
  ShapeReader(const std::string& file, const JobHints& hints)
      : file_(file), hints_(hints), reader_(file), slurm_(reader_) {}

  JobShape read(const std::string& text) {
    for (const BatchOption& option : batch_options(text))
      slurm_.add(option.option, option.line, "#SBATCH");
    slurm_.spread_gpus();
    std::map<std::string, std::string> defined = slurm_variables(text);
    for (const auto& [name, value] : hints_.defined) defined[name] = value;
    calls_ = launch_calls(text, file_, defined);
    if (const auto chosen = main_call(calls_)) {
      read_call(*chosen);
    } else if (const auto ray = ray_config(text, file_, defined)) {
      shape_.launcher = "Ray Train";
      shape_.world = JobNumber{ray->gpus, ray->source};
      shape_.assumed = ray->assumed;
      slurm_.gpu = ray->gpu;
    } else {
      read_header();
    }
    shape_.gpu = slurm_.gpu;
    for (const std::string& sentence : slurm_.assumed) shape_.assumed.push_back(sentence);
    complete();
    check();
    return std::move(shape_);
  }

 private:
  void read_call(std::size_t chosen) {
    const LaunchCall& call = calls_[chosen];
    shape_.launcher = call.launcher;
    for (std::optional<std::size_t> outer = call.outer; outer; outer = calls_[*outer].outer)
      if (calls_[*outer].launcher == "srun") outer_srun_ = &calls_[*outer];
    const LaunchCall* step = call.launcher == "srun" ? &call : outer_srun_;
    if (step != nullptr) slurm_.add_step(*step);
    if (call.launcher == "torchrun") read_torchrun(call);
    if (call.launcher == "mpirun" || call.launcher == "horovodrun") read_mpi(call);
    if (call.launcher == "deepspeed") read_deepspeed(call);
    if (call.launcher == "accelerate") read_accelerate(call);
    if (call.launcher == "srun") read_srun();
    if (auto sentence = other_launches(calls_, chosen)) shape_.assumed.push_back(*sentence);
  }

  std::optional<JobNumber> option_number(const LaunchCall& call,
                                         std::initializer_list<std::string_view> names) {
    const LaunchOption* option = call.last(names);
    if (option == nullptr) return {};
    return reader_.number(call.launcher, *option, option->value, call.line);
  }

  // --- launchers ---

  void read_torchrun(const LaunchCall& call) {
    const LaunchOption* nodes = call.last({"nnodes"});
    if (nodes == nullptr) {
      shape_.nodes = JobNumber{1, fmt::format("torchrun without --nnodes (line {})", call.line)};
    } else if (const std::size_t colon = nodes->value.find(':');
               colon != std::string::npos && !only_shell_knows(nodes->value)) {
      // "2:4" is an elastic job of 2 to 4 nodes.
      shape_.nodes = reader_.number("torchrun", *nodes, nodes->value.substr(colon + 1), call.line);
      if (shape_.nodes)
        shape_.assumed.push_back(fmt::format("{} is elastic: all {} nodes take part",
                                             shape_.nodes->source, shape_.nodes->value));
    } else {
      shape_.nodes = reader_.number("torchrun", *nodes, nodes->value, call.line);
    }
    const LaunchOption* processes = call.last({"nproc-per-node"});
    if (processes == nullptr) {
      shape_.per_node =
          JobNumber{1, fmt::format("torchrun without --nproc-per-node (line {})", call.line)};
    } else if (processes->value == "gpu" || processes->value == "auto") {
      each_gpu(option_place("torchrun", *processes, call.line));
    } else if (processes->value == "cpu") {
      refuse_job(file_, option_place("torchrun", *processes, call.line) + " trains on CPUs",
                 "give a launch on GPUs");
    } else {
      shape_.per_node = reader_.number("torchrun", *processes, processes->value, call.line);
    }
    // Each task of srun starts a torchrun of its own.
    if (outer_srun_ != nullptr && slurm_.tasks_per_node && slurm_.tasks_per_node->value > 1)
      shape_.contradictions.push_back(
          fmt::format("srun starts {} tasks on each node ({}), and each of them starts torchrun "
                      "(line {})",
                      slurm_.tasks_per_node->value, slurm_.tasks_per_node->source, call.line));
  }

  // The launcher starts one process for each GPU that it finds. Where the header says neither how
  // many a node has nor how many the job has, per_node stays empty, and launched_cluster() uses all
  // GPUs of a host of the node type.
  void each_gpu(const std::string& source) {
    if (slurm_.gpus_per_node) {
      shape_.per_node =
          JobNumber{slurm_.gpus_per_node->value, source + " and " + slurm_.gpus_per_node->source};
      return;
    }
    if (slurm_.gpus) {
      shape_.world = JobNumber{slurm_.gpus->value, source + " and " + slurm_.gpus->source};
      return;
    }
    shape_.assumed.push_back(source + ": one process for each GPU of the node type");
  }

  // The hosts that the call lists, or those of the hostfile that the user gave. A hostfile that the
  // script names and the user did not give is remembered: complete() asks for it if nothing else
  // states the number of nodes.
  std::optional<JobHosts> hosts_of(const LaunchCall& call, std::string& source) {
    const bool of_deepspeed = call.launcher == "deepspeed";  // its -H is a file
    if (const LaunchOption* list = call.last({"H", "host", "hosts"});
        list != nullptr && !of_deepspeed && !only_shell_knows(list->value)) {
      source = option_place(call.launcher, *list, call.line);
      return hosts_of_list(list->value);
    }
    const LaunchOption* listed = call.last({"hostfile", "machinefile", "f", "default-hostfile"});
    if (of_deepspeed && listed == nullptr) listed = call.last({"H"});
    if (!hints_.hosts_file.empty()) {
      source = hints_.hosts_file;
      JobHosts hosts = hosts_of_file(hints_.hosts);
      if (hosts.count == 0)
        refuse_job(hints_.hosts_file, "lists no host", "a line is HOST slots=8, HOST:8 or HOST");
      return hosts;
    }
    if (listed != nullptr) needs_hostfile_ = option_place(call.launcher, *listed, call.line);
    return {};
  }

  void read_mpi(const LaunchCall& call) {
    shape_.world = option_number(call, {"np", "n", "c", "num-proc"});
    shape_.per_node = option_number(call, {"N", "npernode", "ppn", "perhost", "ranks-per-node"});
    // "ppr:8:node" of Open MPI: 8 processes on each node.
    if (const LaunchOption* map = call.last({"map-by"});
        map != nullptr && map->value.starts_with("ppr:")) {
      const std::vector<std::string> words = fields_of(map->value, ':');
      if (words.size() >= 3 && words[2].starts_with("node"))
        shape_.per_node = reader_.number(call.launcher, *map, words[1], call.line);
    }
    std::string source;
    if (const std::optional<JobHosts> hosts = hosts_of(call, source)) {
      take_hosts(*hosts, source);
    } else if (slurm_.nodes) {
      // Without a list of hosts, mpirun runs on the nodes of the Slurm job.
      shape_.nodes = slurm_.nodes;
      if (!shape_.world && !shape_.per_node) {
        shape_.per_node = slurm_.tasks_per_node;
        shape_.world = slurm_.tasks;
      }
    }
  }

  // mpirun fills the slots of the hosts in their order, so fewer processes take fewer hosts: 16
  // processes on 4 hosts with 8 slots each run on 2 hosts.
  void take_hosts(const JobHosts& hosts, const std::string& source) {
    if (!shape_.per_node && hosts.each) shape_.per_node = JobNumber{*hosts.each, source};
    if (!shape_.world && hosts.slots > 0 && hosts.each)
      shape_.world = JobNumber{hosts.slots, source};
    std::int64_t count = hosts.count;
    if (shape_.world && shape_.per_node) {
      const std::int64_t needed =
          (shape_.world->value + shape_.per_node->value - 1) / shape_.per_node->value;
      if (needed < count) {
        shape_.assumed.push_back(fmt::format("{} processes take {} of the {} hosts of {}",
                                             shape_.world->value, needed, count, source));
        count = needed;
      }
    }
    shape_.nodes = JobNumber{count, source};
  }

  void read_deepspeed(const LaunchCall& call) {
    shape_.nodes = option_number(call, {"num-nodes", "nnodes"});
    if (const LaunchOption* gpus = call.last({"num-gpus", "num-accelerators"});
        gpus != nullptr && gpus->value != "-1")
      shape_.per_node = reader_.number("deepspeed", *gpus, gpus->value, call.line);
    if (const LaunchOption* included = call.last({"include", "i"}); included != nullptr)
      return read_include(*included, call.line);
    std::string source;
    const std::optional<JobHosts> hosts = hosts_of(call, source);
    if (hosts && !shape_.nodes) shape_.nodes = JobNumber{hosts->count, source};
    if (hosts && !shape_.per_node && hosts->each) shape_.per_node = JobNumber{*hosts->each, source};
    if (!hosts && !shape_.nodes && needs_hostfile_.empty()) {
      shape_.nodes = slurm_.nodes;
      if (!slurm_.nodes)
        shape_.nodes = JobNumber{
            1, fmt::format("deepspeed without --hostfile and --num_nodes (line {})", call.line)};
    }
    if (!shape_.per_node)
      each_gpu(fmt::format("deepspeed without --num_gpus (line {})", call.line));
  }

  // "worker-0:0,1,2,3@worker-1:0,1,2,3"; without GPUs all of a host.
  void read_include(const LaunchOption& option, std::size_t line) {
    const std::string source = option_place("deepspeed", option, line);
    if (only_shell_knows(option.value))
      refuse_job(file_, source + " is known to the shell only",
                 "say what a variable is with --define NAME=VALUE");
    // The different numbers of GPUs that hosts use; 0 stands for all GPUs of a host.
    std::set<std::size_t> counts;
    const std::vector<std::string> hosts = fields_of(option.value, '@');
    for (const std::string& host : hosts) {
      const std::size_t colon = host.find(':');
      counts.insert(colon == std::string::npos ? 0 : fields_of(host.substr(colon + 1), ',').size());
    }
    if (counts.size() != 1)
      refuse_job(file_, source + " takes different numbers of GPUs on its hosts",
                 "a cluster has equally many GPUs in all nodes");
    shape_.nodes = JobNumber{static_cast<std::int64_t>(hosts.size()), source};
    if (*counts.begin() > 0)
      shape_.per_node = JobNumber{static_cast<std::int64_t>(*counts.begin()), source};
    else
      each_gpu(source);
  }

  void read_accelerate(const LaunchCall& call) {
    shape_.nodes = option_number(call, {"num-machines"});
    shape_.world = option_number(call, {"num-processes"});
    const bool configured = call.last({"config-file"}) != nullptr;
    if (!shape_.nodes && slurm_.nodes) shape_.nodes = slurm_.nodes;
    if (!shape_.nodes && !configured)
      shape_.nodes = JobNumber{
          1, fmt::format("accelerate launch without --num_machines (line {})", call.line)};
    if (configured && (!shape_.nodes || !shape_.world))
      refuse_job(file_,
                 fmt::format("{} may hold the numbers of machines and processes",
                             option_place("accelerate", *call.last({"config-file"}), call.line)),
                 "add --num_machines and --num_processes as in that file");
    if (!shape_.world)
      each_gpu(fmt::format("accelerate launch without --num_processes (line {})", call.line));
  }

  void read_srun() {
    shape_.nodes = slurm_.nodes;
    shape_.per_node = slurm_.tasks_per_node;
    shape_.world = slurm_.tasks;
    if (!shape_.nodes && !shape_.world && !slurm_.gpus) {
      shape_.nodes = JobNumber{1, "Slurm's default of one node"};
      shape_.assumed.emplace_back("nothing says --nodes: Slurm gives one node");
    }
    if (!shape_.per_node && !shape_.world) {
      // 8 GPUs on a node with --gpus-per-task=2 make 4 tasks on it.
      if (slurm_.gpus_per_task && slurm_.gpus_per_node)
        shape_.per_node = tasks_of_gpus();
      else
        program_takes_gpus("srun starts one task on each node");
    }
  }

  // Tasks on a node, by the GPUs of each.
  [[nodiscard]] JobNumber tasks_of_gpus() const {
    const JobNumber &node = *slurm_.gpus_per_node, &task = *slurm_.gpus_per_task;
    if (task.value > node.value)
      refuse_job(file_,
                 fmt::format("{} gives a task {} GPUs, and {} a node {}", task.source, task.value,
                             node.source, node.value),
                 "give a task at most the GPUs of a node");
    return {node.value / task.value, node.source + " and " + task.source};
  }

  // A program that is started once on a node is taken to start a process for each GPU itself.
  void program_takes_gpus(const std::string& why) {
    const std::optional<JobNumber>& gpus =
        slurm_.gpus_per_node ? slurm_.gpus_per_node : slurm_.gpus;
    if (gpus) {
      (slurm_.gpus_per_node ? shape_.per_node : shape_.world) = gpus;
      shape_.assumed.push_back(
          fmt::format("{}, which is taken to run one process for each of the {} "
                      "GPUs of {}",
                      why, gpus->value, gpus->source));
    } else {
      shape_.assumed.push_back(why +
                               ", which is taken to run one process for each GPU of the node "
                               "type");
    }
  }

  // The script calls no launcher that is known, so the header alone says how large the job is.
  void read_header() {
    for (const LaunchCall& call : calls_)
      if (call.launcher == "ray")
        refuse_job(file_,
                   fmt::format("ray job submit (line {}) runs \"{}\"; its size is in the Python "
                               "script",
                               call.line, call.program),
                   "give the script with Ray Train's ScalingConfig(num_workers=...)");
    if (!slurm_.nodes && !slurm_.tasks && !slurm_.gpus)
      refuse_job(
          file_, "launches no job that is known, and has no #SBATCH line with its size",
          "give a script with #SBATCH lines, srun, torchrun, mpirun, horovodrun, deepspeed or "
          "accelerate launch, or a Python script with Ray Train's ScalingConfig");
    shape_.launcher = "sbatch";
    shape_.nodes = slurm_.nodes;
    if (slurm_.gpus && !slurm_.nodes) {
      shape_.world = slurm_.gpus;
      shape_.assumed.push_back(fmt::format("each GPU of {} runs one process", slurm_.gpus->source));
      return;
    }
    shape_.per_node = slurm_.tasks_per_node;
    shape_.world = slurm_.tasks;
    if (!shape_.per_node && !shape_.world) program_takes_gpus("the script names no launcher");
  }

  // --- the whole ---

  // Fills in what the launcher leaves open.
  void complete() {
    shape_.gpus_per_node = slurm_.gpus_per_node;
    if (!shape_.nodes && !shape_.world) shape_.nodes = slurm_.nodes;
    if (!shape_.per_node && !shape_.world) shape_.world = slurm_.gpus;
    if (!shape_.nodes && shape_.world && shape_.per_node)
      shape_.nodes =
          JobNumber{(shape_.world->value + shape_.per_node->value - 1) / shape_.per_node->value,
                    shape_.world->source + " and " + shape_.per_node->source};
    if (!shape_.per_node && shape_.nodes && shape_.world &&
        shape_.world->value % shape_.nodes->value == 0)
      shape_.per_node = JobNumber{shape_.world->value / shape_.nodes->value,
                                  shape_.world->source + " and " + shape_.nodes->source};
    for (const std::string& source : reader_.unknown())
      shape_.assumed.push_back(source +
                               " is known to the shell only: other numbers hold in its "
                               "place");
    if (shape_.nodes || shape_.world) return;
    if (!needs_hostfile_.empty())
      refuse_job(file_, needs_hostfile_ + " lists the hosts, and nothing else says how many",
                 "give that file, too: --hostfile FILE");
    refuse_job(file_,
               reader_.unknown().empty()
                   ? "does not say on how many nodes the job runs"
                   : reader_.unknown().front() + " is known to the shell only",
               "say what a variable is with --define NAME=VALUE, or add --nodes 4");
  }

  void contradict(const JobNumber& a, const JobNumber& b, std::string_view what) {
    shape_.contradictions.push_back(
        fmt::format("{} says {} {}, {} says {}", a.source, a.value, what, b.source, b.value));
  }

  // Fewer processes on a node than reserved GPUs are allowed and noted; more are a contradiction.
  void check() {
    if (shape_.nodes && slurm_.nodes && shape_.nodes->value != slurm_.nodes->value)
      contradict(*slurm_.nodes, *shape_.nodes, "nodes");
    if (shape_.per_node && slurm_.gpus_per_node) {
      if (shape_.per_node->value > slurm_.gpus_per_node->value)
        contradict(*slurm_.gpus_per_node, *shape_.per_node, "GPUs or processes of a node");
      else if (shape_.per_node->value < slurm_.gpus_per_node->value)
        shape_.assumed.push_back(fmt::format("{} of the {} GPUs of {} run a process",
                                             shape_.per_node->value, slurm_.gpus_per_node->value,
                                             slurm_.gpus_per_node->source));
    }
    if (shape_.nodes && shape_.per_node && shape_.world &&
        shape_.nodes->value * shape_.per_node->value != shape_.world->value)
      shape_.contradictions.push_back(fmt::format(
          "{} says {} processes, {} nodes ({}) with {} each ({}) are {}", shape_.world->source,
          shape_.world->value, shape_.nodes->value, shape_.nodes->source, shape_.per_node->value,
          shape_.per_node->source, shape_.nodes->value * shape_.per_node->value));
    check_gpus();
  }

  // More processes than the job has GPUs are a contradiction, too, where no node says how many it
  // has.
  void check_gpus() {
    std::optional<JobNumber> world = shape_.world;
    if (!world && shape_.nodes && shape_.per_node)
      world = JobNumber{shape_.nodes->value * shape_.per_node->value,
                        shape_.nodes->source + " and " + shape_.per_node->source};
    if (slurm_.gpus && world && world->value > slurm_.gpus->value && shape_.contradictions.empty())
      contradict(*slurm_.gpus, *world, "GPUs or processes of the job");
  }

  const std::string& file_;
  const JobHints& hints_;
  NumberReader reader_;
  SlurmJob slurm_;  // of the header, then of the step
  std::vector<LaunchCall> calls_;
  const LaunchCall* outer_srun_ = nullptr;
  std::string needs_hostfile_;  // the option that names one
  JobShape shape_;
};

// Returns whether the job has other numbers, or cannot be read, with another value of a variable.
bool changes_shape(const BranchVariable& branch, const JobShape& shape, const std::string& text,
                   const std::string& file, const JobHints& hints) {
  const auto same = [](const std::optional<JobNumber>& a, const std::optional<JobNumber>& b) {
    return a.has_value() == b.has_value() && (!a || a->value == b->value);
  };
  return std::ranges::any_of(branch.values, [&](const BranchVariable::Value& other) {
    JobHints chosen = hints;
    chosen.defined[branch.name] = other.text;
    try {
      const JobShape changed = ShapeReader(file, chosen).read(text);
      return !same(changed.nodes, shape.nodes) || !same(changed.per_node, shape.per_node) ||
             !same(changed.world, shape.world) || changed.gpu != shape.gpu;
    } catch (const InputError&) {
      return true;
    }
  });
}

}  // namespace

JobShape job_shape(const std::string& text, const std::string& file, const JobHints& hints) {
  if (text.find('\0') != std::string::npos)
    refuse_job(file, "is a binary file", "give the script that launches the job");
  JobShape shape = ShapeReader(file, hints).read(text);
  for (const BranchVariable& branch : branch_variables(text, file, hints.defined))
    if (changes_shape(branch, shape, text, file, hints)) shape.assumed.push_back(branch.sentence());
  return shape;
}

LaunchedSizes sizes_of(const JobShape& shape, const std::string& file) {
  if (!shape.contradictions.empty())
    refuse_job(file, fmt::format("{}", fmt::join(shape.contradictions, "; ")),
               "correct the script, or say how many nodes there are with --nodes");
  const auto value = [](const std::optional<JobNumber>& number) {
    return number ? std::optional(number->value) : std::nullopt;
  };
  return {
      .hosts = value(shape.nodes), .per_host = value(shape.per_node), .world = value(shape.world)};
}

LaunchedSizes job_sizes(const std::string& text, const std::string& file, const JobHints& hints) {
  JobShape shape;
  try {
    shape = job_shape(text, file, hints);
  } catch (const InputError&) {
    return {};  // a log, or a script whose launcher is not known
  }
  return sizes_of(shape, file);
}

}  // namespace trainyard
