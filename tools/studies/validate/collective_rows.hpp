// Measured collectives as rows of a validation: tables and logs of nccl-tests (as printed, of -J,
// or imported) whose machine is described beside them (dataset.hpp), or by the file's name in
// sim/nccl/data/measured_platforms.json.
//
// The prediction is the machine model's (sim/nccl/machine.hpp) for what NCCL chooses
// on that machine: what a run takes where nothing else uses the links. On a described cluster it is
// that of `trainyard collective`: the same on the cluster's own links.
//
//   if (is_collective_dataset("h100_sxm.csv"))
//     for (const Outcome& outcome : validate_collectives("h100_sxm.csv")) use(outcome.error());
#pragma once

#include <filesystem>
#include <vector>

#include "tools/studies/validate/outcome.hpp"

namespace trainyard {

// By its contents: a table that begins with op,dtype,gpus, or a log whose rows have an op and
// bytes. Throws InputError where it cannot be read.
[[nodiscard]] bool is_collective_dataset(const std::filesystem::path& file);

// One for each measured point, repeated ones as their median; with latency and transfer as the
// parts. Throws InputError where nobody described the machine, or the file is not as it should be.
[[nodiscard]] std::vector<Outcome> validate_collectives(const std::filesystem::path& file);

}  // namespace trainyard
