// The shape of a job: on how many nodes it runs, and with how many processes on each. It comes from
// the script that launches it: the #SBATCH lines of Slurm, and the options of srun, torchrun (also
// as python -m torch.distributed.run), mpirun, horovodrun, deepspeed and accelerate launch; or from
// the ScalingConfig of Ray Train in a Python script. Nothing is executed.
//
//    const JobShape shape = job_shape(text, "job.sh");
//    shape.nodes->value;      // 4
//    shape.nodes->source;     // "torchrun --nnodes 4 (line 12)"
//
// The innermost launcher says how many processes run: torchrun within srun. What it leaves open
// comes from the outer one, then from Slurm's header. Numbers that contradict each other are listed
// with both places.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/import/job_numbers.hpp"
#include "scenarios/import/launched_cluster.hpp"

namespace trainyard {

struct JobShape {
  std::string launcher = {};  // the innermost; "sbatch" where there is none
  std::optional<JobNumber> nodes = {};
  std::optional<JobNumber> per_node = {};       // processes
  std::optional<JobNumber> world = {};          // processes of the job
  std::optional<JobNumber> gpus_per_node = {};  // that the job reserves
  std::string gpu = {};                         // as --gres=gpu:h100:8 names it; empty: not named
  std::vector<std::string> assumed = {};        // a sentence each
  std::vector<std::string> contradictions = {};
};

// The user's answers to what the script leaves to its environment.
struct JobHints {
  std::map<std::string, std::string> defined = {};  // variables
  std::string hosts = {};       // contents of the hostfile that the script names; empty: none
  std::string hosts_file = {};  // its name, for messages
};

// Throws InputError for text that launches nothing, for a number that only the shell could work out
// where nothing else states it, and for a number that is no whole number above zero.
[[nodiscard]] JobShape job_shape(const std::string& text, const std::string& file,
                                 const JobHints& hints = {});

// Returns the sizes for launched_cluster(). Throws InputError where the shape has contradictions.
[[nodiscard]] LaunchedSizes sizes_of(const JobShape& shape, const std::string& file);

// Returns the sizes of the job that a script launches, for LaunchMachine::job; none where the text
// launches no job that is known. Throws InputError where its numbers contradict each other.
[[nodiscard]] LaunchedSizes job_sizes(const std::string& text, const std::string& file,
                                      const JobHints& hints = {});

}  // namespace trainyard
