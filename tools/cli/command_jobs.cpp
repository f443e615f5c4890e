// `trainyard jobs`: several jobs on one cluster, and how much they slow each other.
#include "sim/base/files.hpp"
#include "sim/report/result_json.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/outputs.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/jobs/report.hpp"
#include "tools/studies/jobs/study.hpp"

namespace trainyard {

namespace {

struct JobsChoice {
  ScenarioChoice file;
  std::string json, trace, html;
  std::uint32_t shift = 0;
  double priorities = 0.0;
  std::uint32_t most_steps = 64;
  bool no_fold = false;
};

Exit jobs(const JobsChoice& choice) {
  refuse_outputs({choice.json, choice.html, choice.trace}, {choice.file.file});
  const Outputs outputs = outputs_of({.trace = choice.trace});
  const JobsStudy study =
      jobs_study({.jobs = load_jobs(choice.file.file, overrides_of(choice.file)),
                  .shift = choice.shift,
                  .priorities = choice.priorities,
                  .options = {.fold = !choice.no_fold, .most_steps = choice.most_steps}});
  if (!choice.json.empty()) write_file(choice.json, to_text(study.json));
  const std::string written = write(outputs, study.result.run.view(), {});
  if (!choice.html.empty()) write_file(choice.html, jobs_page(study.jobs, study.result));
  say("{}{}", study.text, written);
  return Exit::Fine;
}

}  // namespace

void add_jobs(CLI::App& app, Action& action) {
  auto choice = std::make_shared<JobsChoice>();
  CLI::App* command =
      app.add_subcommand("jobs", "Show how much several jobs on one cluster slow each other");
  command
      ->add_option("file", choice->file.file, "File with a cluster and jobs (see scenarios/jobs/)")
      ->required()
      ->type_name("FILE");
  add_set_option(*command, choice->file.sets)
      ->description("Change a field of the file: --set jobs.0.start=100ms (repeatable)");
  command
      ->add_option("--shift", choice->shift,
                   "Look for better starts: try this many for each job but the first")
      ->type_name("N")
      ->check(in_range(2, 1000));
  command
      ->add_option("--priorities", choice->priorities,
                   "Look for better priorities: try to give each job's traffic this many times the "
                   "share of the others'")
      ->type_name("X")
      ->check(in_range(1.0, 16.0));
  command
      ->add_option("--most-steps", choice->most_steps,
                   "Steps of the longest job to simulate while no repetition is found")
      ->type_name("N")
      ->check(in_range(1, 10'000));
  command->add_flag("--no-fold", choice->no_fold, "Simulate every rank");
  add_output_file(*command, "--json", choice->json, "Write the report as JSON");
  add_output_file(*command, "--html", choice->html, "Write a page with the report and charts");
  add_output_file(*command, "--trace", choice->trace,
                  "Write all jobs on one clock as a trace for Perfetto");
  command->footer("Example:\n  trainyard jobs scenarios/jobs/two_llama3_8b_32xh100.json --shift 8");
  command->callback([choice, &action] { action = [choice] { return jobs(*choice); }; });
}

}  // namespace trainyard
