// `trainyard import`: converts files of other programs into files that trainyard reads.
#include <array>

#include "tools/cli/command.hpp"

namespace trainyard {

namespace {

// Each function adds one subcommand of `import`.
constexpr std::array kFormats{add_import_chakra,   add_import_hf_config,  add_import_kineto,
                              add_import_megatron, add_import_nccl_tests, add_import_nccl_topo,
                              add_import_nsys,     add_import_topo_m};

}  // namespace

void add_import(CLI::App& app, Action& action) {
  CLI::App* import =
      app.add_subcommand("import", "Read what other programs measured, found or wrote");
  import->require_subcommand(1);
  for (const auto add : kFormats) add(*import, action);
  import->footer(
      "Example:\n  trainyard import nccl-tests tests/scenarios/import/h8.log "
      "-o profile.json");
}

}  // namespace trainyard
