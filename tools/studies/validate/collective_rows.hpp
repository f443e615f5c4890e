// Measured collectives as rows of a validation: tables and logs of nccl-tests (as printed, from -J,
// or imported). Their machine is described in a file next to them (dataset.hpp), or by the file's
// name in sim/nccl/data/measured_platforms.json.
//
// The prediction is that of the machine model (sim/nccl/machine.hpp) for NCCL's choice on that
// machine: the time if nothing else uses the links. On a described cluster it is the prediction of
// `trainyard collective`: the same on the cluster's own links.
//
//    if (is_collective_dataset("h100_sxm.csv"))
//      for (const Outcome& outcome : validate_collectives("h100_sxm.csv"))
//        if (outcome.predicted()) use(outcome.error());
#pragma once

#include <filesystem>
#include <vector>

#include "tools/studies/validate/outcome.hpp"

namespace trainyard {

// Whether a file contains collectives, by its contents: a table that begins with op,dtype,gpus, a
// log of nccl-tests, a collective profile, or a log whose rows have an op and bytes. Throws
// InputError if the file cannot be read.
[[nodiscard]] bool is_collective_dataset(const std::filesystem::path& file);

// One outcome for each measured point (repeated points as their median), with latency and transfer
// as the parts. Throws InputError if the machine is not described, or the file is malformed.
[[nodiscard]] std::vector<Outcome> validate_collectives(const std::filesystem::path& file);

}  // namespace trainyard
