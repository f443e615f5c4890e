#include "kernels/bench/front.hpp"

#include <CLI/CLI.hpp>
#include <map>

#include "kernels/bench/collective_rows.hpp"

namespace trainyard::bench {

namespace {

constexpr int exit_usage = 2;

// Parses the command line; CLI11 prints its messages to the terminal.
std::optional<int> parsed(CLI::App& app, int count, char** values) {
  try {
    app.parse(count, values);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : exit_usage;
  }
  return std::nullopt;
}

}  // namespace

CommandLine<KernelOptions> read_kernel_options(int count, char** values,
                                               const std::string& version) {
  CommandLine<KernelOptions> line;
  KernelOptions& options = line.options;
  CLI::App app("Measures kernels on the GPU at hand and writes them as a profile.");
  const std::map<std::string, Grid> grids = {{"default", Grid::Default}, {"small", Grid::Small}};
  CLI::Option* list = app.add_flag("--list", options.list, "Print the tasks, measure nothing");
  app.add_option("-o,--output", options.out, "The profile to write or to go on with (JSON)");
  app.add_option("--only", options.only, "Measure only these")
      ->delimiter(',')
      ->check(CLI::IsMember(
          {"gemm", "experts", "memory", "copy", "launch", "interference", "attention"}));
  CLI::Option* grid = app.add_option("--grid", options.grid, "default: under eight minutes; small")
                          ->transform(CLI::CheckedTransformer(grids));
  app.add_option("--shape", options.shapes, "Measure this instead of a grid; may be repeated")
      ->excludes(grid);
  app.add_option("--shapes", options.shapes_file,
                 "Measure the shapes of this file (trainyard run --missing) instead of a grid")
      ->excludes(grid);
  app.set_version_flag("--version", version);
  app.callback([&options, list] {
    if (options.out.empty() && list->count() == 0) throw CLI::RequiredError("--output");
  });
  line.exit_code = parsed(app, count, values);
  return line;
}

CommandLine<CollectiveOptions> read_collective_options(int count, char** values) {
  CommandLine<CollectiveOptions> line;
  CollectiveOptions& options = line.options;
  CLI::App app("Measures NCCL's collectives on all GPUs of this node.");
  app.add_option("-o,--output", options.out, "The profile to write (JSON)")->required();
  app.add_option("--op", options.operations, "Only these operations")
      ->delimiter(',')
      ->check(CLI::IsMember(all_words<kCollectiveOperations>()));
  app.add_option("--min", options.least, "Least size")->capture_default_str();
  app.add_option("--max", options.most, "Largest size")->capture_default_str();
  app.add_option("--factor", options.factor, "From one size to the next")
      ->capture_default_str()
      ->check(CLI::Range(2, 1024));
  app.add_option("--algorithms", options.algorithms, "Force each: ring, tree, nvls, nvlstree, ...")
      ->delimiter(',');
  app.add_option("--protocols", options.protocols, "Force each: ll, ll128, simple")->delimiter(',');
  app.add_option("--id-file", options.id_file, "On a shared file system, for several nodes");
  line.exit_code = parsed(app, count, values);
  if (line.exit_code) return line;
  if (options.operations.empty()) options.operations = all_words<kCollectiveOperations>();
  (void)read_bytes("--min", options.least);
  (void)read_bytes("--max", options.most);
  return line;
}

}  // namespace trainyard::bench
