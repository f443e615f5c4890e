// The machine of a user's own measurements, described in a file beside them: runs.json and runs.log
// have runs.machine.json.
//
// It holds a cluster as scenarios do ({"node": "dgx_h100", "nodes": 4, "fabric": {...}}, or a whole
// scenario); for logs of nccl-tests it may hold a platform block instead ({"gpu": "h100", "gpus":
// 8, "nic": 50, "nics": 8, "fabric": "infiniband"}, sim/nccl/fit/samples.hpp).
//
//   if (const auto file = machine_file("measured/runs.json")) use(read_machine(*file));
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace trainyard {

// Where it would be; and where it is, if it is there.
[[nodiscard]] std::filesystem::path machine_file_name(const std::filesystem::path& data);
[[nodiscard]] std::optional<std::filesystem::path> machine_file(const std::filesystem::path& data);

// A platform block names its GPU and lists no devices; a cluster does neither or both. Throws
// InputError where the file is no JSON.
[[nodiscard]] bool is_platform_block(const std::filesystem::path& machine);

// The cluster object of the file. Throws InputError where it holds another thing, or one that
// cannot be built.
[[nodiscard]] nlohmann::ordered_json read_machine(const std::filesystem::path& machine);

}  // namespace trainyard
