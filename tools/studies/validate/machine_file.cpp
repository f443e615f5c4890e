#include "tools/studies/validate/machine_file.hpp"

#include "scenarios/simulate/workload_files.hpp"
#include "sim/base/json_reader.hpp"
#include "topologies/cluster_reader.hpp"

namespace trainyard {

namespace fs = std::filesystem;

fs::path machine_file_name(const fs::path& data) {
  fs::path name = data;
  return name.replace_extension(".machine.json");
}

std::optional<fs::path> machine_file(const fs::path& data) {
  const fs::path name = machine_file_name(data);
  std::error_code error;
  return fs::is_regular_file(name, error) ? std::optional(name) : std::nullopt;
}

bool is_platform_block(const fs::path& machine) {
  JsonFile file = JsonFile::read(machine);
  const nlohmann::ordered_json& document = file.document();
  return document.is_object() && document.contains("gpu") && !document.contains("devices");
}

nlohmann::ordered_json read_machine(const fs::path& machine) {
  if (is_platform_block(machine))
    throw InputError(
        Problem{machine.string(), "/gpu",
                "describes a platform of nccl-tests, and runs of training need a cluster",
                "write {\"node\": \"dgx_h100\", \"nodes\": 4, \"fabric\": {...}}"});
  return to_json(read_cluster_file(machine));
}

}  // namespace trainyard
