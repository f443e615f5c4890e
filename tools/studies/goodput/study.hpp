// The whole of `trainyard goodput`: scenarios in, a report out.
//
//    const GoodputStudy study = goodput_study({.scenarios = {{"", scenario}}, .days = 30.0});
//    goodput_text(study.report());
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "tools/studies/goodput/goodput.hpp"
#include "tools/studies/goodput/report.hpp"

namespace trainyard {

struct NamedScenario {
  std::string name;
  Scenario scenario;
};

struct GoodputQuestion {
  std::vector<NamedScenario> scenarios = {};  // the job, and alternatives to it
  double days = 0.0;                          // length of the run on the calendar, or
  double tokens = 0.0;                        // tokens to train; exactly one of both is given
  std::size_t runs = 0;                       // 0: until the goodput is known
  std::uint64_t seed = 0;
  std::optional<double> price_per_gpu_hour = {};  // none: that of the block power
  std::function<void(double)> progress = {};
  std::function<bool()> end = {};
};

struct GoodputStudy {
  std::string title;
  std::vector<NamedJob> jobs;
  RunLength length;
  std::uint64_t seed = 0;
  Goodput result;
  std::vector<Alternative> alternatives;  // by scenario

  [[nodiscard]] GoodputReport report() const;          // refers to this
  [[nodiscard]] std::vector<RunEvent> events() const;  // of the first run
};

// Throws InputError for a scenario without what goodput needs, for a length that is not given, and
// for alternatives with other causes of failures; Cancelled.
[[nodiscard]] GoodputStudy goodput_study(const GoodputQuestion& question);

// The goodput of one of many variants of a job: its figures, or why it is refused.
struct VariantGoodput {
  Alternative figures = {};
  std::string refused = {};  // empty: it is not
};
// Answers sweeps and searches: all variants run for so many days on the same failures, as often as
// the first sound one needs. Throws the first refusal where all variants are refused.
[[nodiscard]] std::vector<VariantGoodput> goodput_of_variants(
    const std::vector<NamedScenario>& variants, double days);

}  // namespace trainyard
