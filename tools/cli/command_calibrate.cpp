// `trainyard calibrate`: fits a few constants of the data files to measured runs.
#include <fmt/format.h>

#include <map>

#include "sim/base/files.hpp"
#include "sim/render/text_table.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/print.hpp"
#include "tools/studies/validate/calibration.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/score.hpp"

namespace trainyard {

namespace {

struct CalibrateChoice {
  std::vector<std::string> datasets;
  std::vector<std::string> constants;
  std::vector<std::string> only;
  std::size_t every = 1;
  std::size_t rounds = CalibrateOptions{}.rounds;
  std::size_t processes = 0;
  std::string left_out = "source";
  std::string level_of;
  std::string out, cache;
};

// The complete rows whose id begins with one of --only, and of these every Nth.
std::vector<MeasuredRow> chosen_rows(const CalibrateChoice& choice) {
  std::vector<MeasuredRow> rows;
  std::size_t number = 0;
  for (const std::string& file : choice.datasets) {
    for (MeasuredRow& row : read_dataset(file)) {
      const bool named = choice.only.empty() || std::any_of(choice.only.begin(), choice.only.end(),
                                                            [&](const std::string& begin) {
                                                              return row.id.starts_with(begin);
                                                            });
      if (row.complete && named && number++ % choice.every == 0) rows.push_back(std::move(row));
    }
  }
  return rows;
}

// The command line that found the values and the errors of the fit, for the "source" field of the
// data file.
std::string record(const CalibrateChoice& choice, const Calibration& calibration) {
  std::string names;
  for (const std::string& file : choice.datasets) {
    names += ' ' + std::filesystem::path(file).filename().string();
  }
  std::string text =
      fmt::format("trainyard calibrate{} --constants {}", names, fmt::join(choice.constants, ","));
  if (!choice.only.empty()) text += fmt::format(" --only {}", fmt::join(choice.only, ","));
  if (choice.every > 1) text += fmt::format(" --every {}", choice.every);
  if (choice.left_out != "source") text += " --leave-out " + choice.left_out;
  if (!choice.level_of.empty()) text += " --level-of " + choice.level_of;
  double before = score_of_all(calibration.before).score.mape;
  double after = score_of_all(calibration.after).score.mape;
  const auto mean = [&](double SourceCheck::*error) {
    double sum = 0.0, rows = 0.0;
    for (const SourceCheck& check : calibration.fit.sources) {
      sum += check.*error * static_cast<double>(check.rows);
      rows += static_cast<double>(check.rows);
    }
    return sum / rows;
  };
  if (!choice.level_of.empty()) {  // all three errors are then deviations from the fitted levels
    before = mean(&SourceCheck::before);
    after = mean(&SourceCheck::within);
  }
  return fmt::format("{}: {} rows of {} {}s, MAPE {} before, {} fitted, {} with each {} left out",
                     text, calibration.rows, calibration.fit.sources.size(), choice.left_out,
                     percent(before), percent(after), percent(mean(&SourceCheck::without)),
                     choice.left_out);
}

// Writes each data file once, with all of its fitted constants and the command as their source.
void write_constants(const CalibrateChoice& choice, const Calibration& calibration) {
  std::map<std::string, std::vector<Setting>> by_file;
  for (const Setting& setting : with_coupled_settings(calibration.settings)) {
    by_file[setting.constant.file].push_back(setting);
  }
  for (const auto& [file, settings] : by_file) {
    write_file(std::filesystem::path(choice.out) / file,
               file_with(settings, record(choice, calibration)));
  }
}

Exit calibrate_rows(const CalibrateChoice& choice) {
  std::vector<Constant> constants;
  for (const std::string& name : choice.constants) constants.push_back(read_constant(name));
  const std::vector<MeasuredRow> rows = chosen_rows(choice);
  std::optional<Feature> level_of;
  if (!choice.level_of.empty()) level_of = feature_named("--level-of", choice.level_of);
  Calibration result;
  {
    Progress progress("calibrating");
    result = calibrate(rows, constants,
                       {.validate = {.processes = choice.processes,
                                     .cache = choice.cache,
                                     .progress = [&](double fraction) { progress.show(fraction); }},
                        .rounds = choice.rounds,
                        .left_out = feature_named("--leave-out", choice.left_out),
                        .level_of = level_of});
  }
  if (!choice.out.empty()) write_constants(choice, result);
  say("{}", calibration_text(result));
  return Exit::Fine;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  auto choice = std::make_shared<CalibrateChoice>();
  CLI::App* command = app.add_subcommand(
      "calibrate", "Fit a few constants of the data files to measured runs, and cross-validate");
  command->add_option("datasets", choice->datasets, "Files of measured rows, as for validate")
      ->required();
  command
      ->add_option("--constants", choice->constants,
                   "What to fit: FILE#/POINTER below the data folder (repeatable); A+B keeps B in "
                   "its ratio to A")
      ->delimiter(',')
      ->required();
  command->add_option("--only", choice->only, "Rows whose id begins so (repeatable)")
      ->delimiter(',');
  command->add_option("--every", choice->every, "Take every Nth row")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--leave-out", choice->left_out,
                   "What cross-validation leaves out together: source, group (a model on a machine "
                   "within a source) or another feature of validate --group-by")
      ->capture_default_str();
  command->add_option(
      "--level-of", choice->level_of,
      "Rows with an equal value of this feature have their own level, which is not fitted: only "
      "differences between them count, as for a slope with scale");
  command->add_option("--rounds", choice->rounds, "Rounds of slopes and fit")
      ->check(in_range(1, 10))
      ->capture_default_str();
  command->add_option("--out", choice->out,
                      "Write the data files with the fitted values below this folder");
  command->add_option("--cache", choice->cache, "Keep answers in this file, as for validate");
  add_processes_option(*command, choice->processes);
  command->footer(
      "Example:\n  trainyard calibrate runs.json --only dgxc,titan --constants "
      "kernels/profiles/h100.json#/gemm/sustained_time/value");
  command->callback([choice, &action] { action = [choice] { return calibrate_rows(*choice); }; });
}

}  // namespace trainyard
