#include "tools/studies/jobs/study.hpp"

#include <utility>

#include "tools/studies/jobs/report.hpp"
#include "tools/studies/jobs/shift.hpp"

namespace trainyard {

JobsStudy jobs_study(const JobsQuestion& question) {
  Memo memo;
  Jobs jobs = question.jobs;
  JobsStudy study;
  const auto take = [&](const char* what, ShiftSearch search) {
    study.text += shift_text(search) + "\n";
    study.json[what] = shift_json(search);
    jobs = std::move(search.best);
  };
  if (question.shift > 0)
    take("starts", search_starts(jobs, question.shift, question.options, memo));
  if (question.priorities > 0.0)
    take("priorities", search_priorities(jobs, question.priorities, question.options, memo));
  study.result = simulate_jobs(jobs, question.options, memo);
  study.json.update(jobs_json(jobs, study.result));
  study.text += jobs_text(jobs, study.result);
  study.jobs = std::move(jobs);
  return study;
}

}  // namespace trainyard
