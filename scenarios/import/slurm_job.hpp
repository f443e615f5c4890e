// The size of a Slurm job: the options of its #SBATCH lines and of srun.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/import/job_numbers.hpp"
#include "scenarios/import/launch_script.hpp"

namespace trainyard {

// The options of a job's header, then those of srun, which replace them.
class SlurmJob {
 public:
  explicit SlurmJob(NumberReader& reader) : reader_(reader) {}

  std::optional<JobNumber> nodes = {}, tasks = {}, tasks_per_node = {};
  std::optional<JobNumber> gpus_per_node = {}, gpus = {}, gpus_per_task = {};
  std::string gpu = {};
  std::vector<std::string> assumed = {};

  void add(const LaunchOption& option, std::size_t line, const std::string& launcher);

  // The options of srun hold for its step, over those of the header.
  void add_step(const LaunchCall& call);

  // Works out what --gpus, the GPUs of all nodes, says of the numbers that are not stated.
  void spread_gpus();

 private:
  // "4", or "2-4": at least 2 nodes and at most 4.
  std::optional<JobNumber> node_count(const std::string& launcher, const LaunchOption& option,
                                      std::size_t line);

  // "gpu:h100:8", "h100:8" or "8". Of a list ("gpu:8,nvme:1") the GPUs count; nothing where it
  // holds none. A kind without a number ("gpu:h100") is one GPU.
  std::optional<JobNumber> gpu_count(const std::string& launcher, const LaunchOption& option,
                                     std::size_t line);

  NumberReader& reader_;
};

// Returns the variables that Slurm sets in a job with the #SBATCH lines of a script: SLURM_NNODES,
// SLURM_NTASKS and others, as far as the lines state them.
[[nodiscard]] std::map<std::string, std::string> slurm_variables(const std::string& text);

}  // namespace trainyard
