// `trainyard profile`: measured kernels. Separate programs do the measuring, and they are built
// where nvcc is found. Reading, merging, comparing and judging profiles needs no GPU.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "kernels/bench/profile_files.hpp"
#include "kernels/bench/shapes_file.hpp"
#include "kernels/fit/judge.hpp"
#include "kernels/gpu.hpp"
#include "scenarios/simulate/lowered.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

namespace fs = std::filesystem;

// Installed, it is next to this program; where both were built, in the folder of its box.
std::optional<fs::path> profiler_program(const std::string& name) {
  const fs::path own = program_file().parent_path();
  std::error_code unreadable;
  for (const fs::path& folder : {own, own / "kernels" / "bench"})
    if (fs::exists(folder / name, unreadable)) return folder / name;
  return std::nullopt;
}

namespace {

struct ProfileChoice {
  ScenarioChoice scenario;
  std::string model, parallelism, node = "dgx_h100";
  std::vector<std::string> files;
  std::string out, gpu, source;
  std::size_t most = 20;
  double held_out = 0.0;
  std::uint64_t seed = 1;
  bool markdown = false;
  std::vector<std::string> passed_on;
};

[[noreturn]] void fail_profile(std::string problem, std::string hint) {
  throw InputError(Problem{{}, {}, std::move(problem), std::move(hint)});
}

// Starts a profiler. It replaces this process.
Exit run_program(const char* name, const std::vector<std::string>& arguments) {
  const std::optional<fs::path> program = profiler_program(name);
  if (!program)
    throw RunError(fmt::format(
        "{} is not next to this program: it is built if nvcc and its library are found", name));
  std::vector<std::string> words = {program->string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // execv() drops what is still buffered.
  std::fflush(nullptr);
  ::execv(program->c_str(), pointers.data());
  throw RunError(fmt::format("{} cannot be started: {}", program->string(), std::strerror(errno)));
}

// The sizes of "tensor=8,pipeline=2" as {"tensor": 8, "pipeline": 2}, and the number of GPUs that
// they take.
struct AskedLayout {
  nlohmann::ordered_json sizes = nlohmann::ordered_json::object();
  std::int64_t gpus = 1;
};
AskedLayout asked_layout(const std::string& text) {
  AskedLayout layout;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t equals = word.find('=');
    std::istringstream number(equals == std::string::npos ? "" : word.substr(equals + 1));
    std::int64_t size = 0;
    if (!(number >> size) || size < 1 || !(number >> std::ws).eof())
      fail_profile(fmt::format("--parallelism holds \"{}\"", word), "write tensor=8,pipeline=2");
    const std::string name = word.substr(0, equals);
    layout.sizes[name] = size;
    // Expert ranks are among these GPUs and take none of their own.
    if (name == "tensor" || name == "pipeline" || name == "data" || name == "context")
      layout.gpus *= size;
  }
  return layout;
}

// Writes a scenario of the model with this layout, on whole nodes. One microbatch for each replica
// is enough, because it contains every kernel shape.
void write_scenario(const ProfileChoice& choice, const std::string& file) {
  AskedLayout layout = asked_layout(choice.parallelism);
  constexpr std::int64_t gpus_of_node = 8;
  const std::int64_t nodes = (layout.gpus + gpus_of_node - 1) / gpus_of_node;
  const bool fills = nodes * gpus_of_node % layout.gpus == 0;
  if (fills && !layout.sizes.contains("data"))
    layout.sizes["data"] = nodes * gpus_of_node / layout.gpus;
  const nlohmann::ordered_json scenario = {
      {"description", "The shapes of one model and layout, to be measured"},
      {"source", "trainyard profile measure --model"},
      {"model", choice.model},
      {"cluster",
       {{"node", choice.node}, {"nodes", nodes}, {"fabric", {{"kind", "single_switch"}}}}},
      {"parallelism", layout.sizes},
      {"training",
       {{"sequence_length", 4096},
        {"micro_batch_size", 1},
        {"global_batch_size", layout.sizes.value("data", std::int64_t{1})}}}};
  write_file(file, scenario.dump(2) + "\n");
}

// All kernel shapes of a scenario, and the GPU for which it prices them.
std::vector<bench::WantedShape> shapes_of(const ScenarioChoice& choice, std::string& gpu) {
  const Scenario scenario = read(choice);
  const Cluster cluster = build_cluster(scenario.cluster);
  gpu = cluster.facts().gpu;
  std::vector<bench::WantedShape> shapes;
  for (const Kernel& kernel : scenario_workload(scenario, cluster).kernels)
    shapes.push_back({kernel, "", 0.0});
  return shapes;
}

// Measures kernels. Options that this command does not define are passed on to the profiler.
Exit measure_kernels(const ProfileChoice& given) {
  ProfileChoice choice = given;
  std::vector<std::string> arguments = choice.passed_on;
  if (!choice.out.empty()) arguments.insert(arguments.end(), {"--output", choice.out});
  if (choice.model.empty() != choice.parallelism.empty())
    fail_profile("--model and --parallelism go together",
                 "--model llama3-70b --parallelism tensor=8,pipeline=2");
  if (!choice.model.empty() || !choice.scenario.file.empty()) {
    if (choice.out.empty())
      fail_profile("measuring a scenario's shapes needs --output", "add --output FILE");
    if (!choice.model.empty()) {
      choice.scenario.file = choice.out + ".scenario.json";
      write_scenario(choice, choice.scenario.file);
    }
    std::string gpu;
    const auto shapes = shapes_of(choice.scenario, gpu);
    const std::string file = choice.out + ".shapes.json";
    write_file(file, to_text(bench::shapes_to_json(shapes, gpu), 1));
    say("{} shapes  {}\n", shapes.size(), file);
    arguments.insert(arguments.end(), {"--shapes", file});
  }
  return run_program("trainyard-profile", arguments);
}

// Writes the rows of several files into one file, or into a GPU's profile.
Exit merge_profiles(const ProfileChoice& choice) {
  std::vector<bench::MeasuredProfile> profiles;
  for (const std::string& file : choice.files) profiles.push_back(bench::read_profile(file));
  const bench::MeasuredProfile all = bench::merged(profiles);
  if (choice.gpu.empty()) {
    write_file(choice.out, to_text(bench::profile_to_json(all), 1));
  } else {
    const fs::path base = data_file("kernels/profiles", choice.gpu);
    const auto document = parse_json(base.string(), read_file(base));
    write_file(choice.out, to_text(bench::with_measured(document, all), 1));
    // Reads the profile back, so that an invalid one is reported now and not in the next run.
    (void)load_cost_model(choice.out);
  }
  say("{} rows of {} files  {}\n", all.rows.size(), profiles.size(), choice.out);
  return Exit::Fine;
}

Exit diff_profiles(const ProfileChoice& choice) {
  const auto change =
      bench::compared(bench::read_profile(choice.files[0]), bench::read_profile(choice.files[1]));
  say("{}", bench::diff_text(change, choice.most));
  return Exit::Fine;
}

Exit import_table(const ProfileChoice& choice) {
  const auto profile = bench::from_csv(
      choice.files.front(), {.gpu = choice.gpu, .source = choice.source, .date = import_date()});
  write_file(choice.out, to_text(bench::profile_to_json(profile), 1));
  const auto left_out = profile.provenance.at("rows_left_out").get<std::size_t>();
  say("{} rows  {}\n", profile.rows.size(), choice.out);
  if (left_out > 0) say("{} lines left out: another dtype, or a window\n", left_out);
  return Exit::Fine;
}

// The name of the profile that judges a user's table: the one of --gpu, or that of the GPU in the
// provenance of the table.
std::string judged_gpu(const ProfileChoice& choice, const bench::MeasuredProfile& rows) {
  if (!choice.gpu.empty()) return choice.gpu;
  const auto gpu = rows.provenance.find("gpu");
  const bool is_text = gpu != rows.provenance.end() && gpu->is_string();
  const std::string named = is_text ? gpu->get<std::string>() : std::string();
  for (const std::string& name : gpu_names())
    if (name == named || load_gpu_sheet(name).title == named) return name;
  fail_profile(
      named.empty() ? "nothing says which GPU the rows were measured on"
                    : fmt::format("\"{}\" has no profile here", named),
      "add --gpu with a name of `trainyard list gpus`, or a profile of your own (my_gpu.json)");
}

// Judges the rows of a user, from a measured profile (.json) or a table (.csv).
std::vector<fit::Judgement> judge_own_rows(const ProfileChoice& choice) {
  std::vector<fit::Judgement> all;
  for (const std::string& file : choice.files) {
    const bench::MeasuredProfile rows =
        fs::path(file).extension() == ".csv"
            ? bench::from_csv(file, {.gpu = choice.gpu, .source = file, .date = import_date()})
            : bench::read_profile(file);
    for (fit::Judgement& one : bench::judge_rows(rows, judged_gpu(choice, rows)))
      all.push_back(std::move(one));
  }
  return all;
}

Exit judge_model(const ProfileChoice& choice) {
  if (choice.held_out < 0.0 || choice.held_out > 0.9)
    fail_profile(fmt::format("--hold-out is {}", choice.held_out),
                 "leave out a share from 0 to 0.9");
  const fs::path& first = choice.files.front();
  const bool folder = choice.files.size() == 1 && fs::is_directory(first);
  if (!folder && choice.held_out > 0.0)
    fail_profile("--hold-out repeats the fit of a folder of tables, and this file has rows only",
                 "leave it out: nothing is fitted on them");
  if (folder && !choice.gpu.empty())
    fail_profile("--gpu is for tables of your own, and a folder names its GPUs itself",
                 "leave it out, or give the files");
  const auto judgements =
      !folder ? judge_own_rows(choice)
      : choice.held_out > 0.0
          ? fit::judge_held_out(first, {.share = choice.held_out, .seed = choice.seed})
          : fit::judge_profiles(first);
  say("{}", fit::judgement_text(judgements, choice.markdown));
  return Exit::Fine;
}

using SharedChoice = std::shared_ptr<ProfileChoice>;

CLI::App* add_measure(CLI::App& profile, const SharedChoice& choice) {
  CLI::App* command = profile.add_subcommand(
      "measure", "Measure kernels on the GPU at hand (all else goes to trainyard-profile)");
  command->allow_extras();
  command->add_option("--scenario", choice->scenario.file, "Measure exactly this one's shapes");
  add_set_option(*command, choice->scenario.sets);
  command->add_option("--model", choice->model, "Or the shapes of this model ...");
  command->add_option("--parallelism", choice->parallelism, "... divided so: tensor=8,pipeline=2");
  command->add_option("--node", choice->node, "... on this node")->capture_default_str();
  command->add_option("-o,--output", choice->out, "The profile to write or to go on with");
  command->footer(
      "Example:\n  trainyard profile measure --output h200.json\n"
      "  trainyard profile measure --model llama3-70b --parallelism tensor=8 --output mine.json");
  return command;
}

void add_files_commands(CLI::App& profile, const SharedChoice& choice, Action& action) {
  CLI::App* merging =
      profile.add_subcommand("merge", "Rows of several profiles in one, or in a GPU's profile");
  merging->add_option("files", choice->files, "Measured profiles, later ones count")->required();
  merging->add_option("-o,--output", choice->out, "The file to write")->required();
  merging->add_option("--gpu", choice->gpu,
                      "Write this GPU's profile with the rows in it, for use in a cluster's node");
  merging->footer(
      "Example:\n  trainyard profile merge gemm.json copy.json -o h200_rows.json\n"
      "  trainyard profile merge h200_rows.json --gpu h200 -o my_h200.json");
  merging->callback([choice, &action] { action = [choice] { return merge_profiles(*choice); }; });

  CLI::App* comparing =
      profile.add_subcommand("diff", "Two profiles: where did this driver get slower?");
  comparing->add_option("files", choice->files, "Before and after")->required()->expected(2);
  comparing->add_option("--most", choice->most, "Rows to list")->capture_default_str();
  comparing->footer("Example:\n  trainyard profile diff driver_570.json driver_580.json");
  comparing->callback([choice, &action] { action = [choice] { return diff_profiles(*choice); }; });

  CLI::App* import = profile.add_subcommand("import", "A table of measured kernels (CSV)");
  import->add_option("table", choice->files, "dtype, m, n, k, time_us or an attention table")
      ->required()
      ->expected(1);
  import->add_option("--gpu", choice->gpu, "The GPU it was measured on")->required();
  import->add_option("--source", choice->source, "Where the table comes from")->required();
  import->add_option("-o,--output", choice->out, "The profile to write")->required();
  import->footer(
      "Example:\n  trainyard profile import gemm.csv --gpu \"NVIDIA H200\" --source \"our "
      "cluster\" -o rows.json");
  import->callback([choice, &action] { action = [choice] { return import_table(*choice); }; });
}

void add_judge(CLI::App& profile, const SharedChoice& choice, Action& action) {
  CLI::App* command = profile.add_subcommand(
      "judge", "How far profiles are off on measured kernels, nothing of which is fitted");
  command
      ->add_option("tables", choice->files,
                   "Your rows: measured profiles (.json) or tables (.csv); or a folder with gemm/, "
                   "attention/, moe/ and h100_sxm.csv ...")
      ->required();
  command->add_option("--gpu", choice->gpu,
                      "The profile to judge by: a name of `trainyard list gpus`, or a file "
                      "(default: that of the GPU which the rows name)");
  command->add_option("--hold-out", choice->held_out,
                      "For a folder: fit without this share of the shapes, and judge on them");
  command->add_option("--seed", choice->seed, "Which shapes are left out")->capture_default_str();
  command->add_flag("--markdown", choice->markdown, "Print a table in Markdown");
  command->footer(
      "Example:\n  trainyard profile judge my_gemm.csv --gpu h200\n"
      "  trainyard profile judge MEASURED/kernels --hold-out 0.2\n"
      "MEASURED stands for your folder of measurements.");
  command->callback([choice, &action] { action = [choice] { return judge_model(*choice); }; });
}

}  // namespace

void add_profile(CLI::App& app, Action& action) {
  auto choice = std::make_shared<ProfileChoice>();
  CLI::App* profile = app.add_subcommand(
      "profile", "Measure kernels; merge, compare, import and judge what was measured");
  profile->require_subcommand(1);
  CLI::App* measuring = add_measure(*profile, choice);
  measuring->callback([choice, measuring, &action] {
    choice->passed_on = measuring->remaining();
    action = [choice] { return measure_kernels(*choice); };
  });
  CLI::App* nccl = profile->add_subcommand(
      "nccl", "Measure collectives on all GPUs of this node (all goes to trainyard-profile-nccl)");
  nccl->allow_extras();
  nccl->footer(
      "Example:\n  trainyard profile nccl --output nccl.json --algorithms ring,tree --protocols "
      "ll,simple");
  nccl->callback([choice, nccl, &action] {
    choice->passed_on = nccl->remaining();
    action = [choice] { return run_program("trainyard-profile-nccl", choice->passed_on); };
  });
  add_files_commands(*profile, choice, action);
  add_judge(*profile, choice, action);
  profile->footer(
      "Example:\n  trainyard profile judge MEASURED/kernels --hold-out 0.2\n"
      "  trainyard profile merge h200_rows.json --gpu h200 -o my_h200.json\n"
      "MEASURED stands for your folder of measurements.");
}

}  // namespace trainyard
