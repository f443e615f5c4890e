#include "tools/studies/validate/goodput/job_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "scenarios/jobs/simulate_jobs.hpp"
#include "sim/render/text_table.hpp"
#include "tools/studies/validate/goodput/row_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

const Json& descriptions() {
  static const Json document = study_data("job_rows");
  return document.at("rows");
}

const Json* description_of(const std::string& id) {
  const auto found = std::ranges::find_if(
      descriptions(), [&](const Json& row) { return row.at("row").get<std::string>() == id; });
  return found == descriptions().end() ? nullptr : &*found;
}

// Calls visit(overrides) for each combination of the alternatives of all axes: axes of 2 and 3
// alternatives make 6 cases. An alternative may change several fields that belong together.
void for_each_case(const Json& axes, const std::function<void(std::vector<Override>)>& visit) {
  std::vector<std::vector<Override>> cases = {{}};
  for (const Json& axis : axes) {
    std::vector<std::vector<Override>> longer;
    for (const std::vector<Override>& one : cases)
      for (const Json& alternative : axis.at("values")) {
        longer.push_back(one);
        for (const auto& [path, value] : alternative.items())
          longer.back().push_back({path, value.dump()});
      }
    cases = std::move(longer);
  }
  for (std::vector<Override>& one : cases) visit(std::move(one));
}

const JobResult& job_named(const JobsResult& result, const std::string& name) {
  return *std::ranges::find(result.jobs, name, &JobResult::name);
}

// Whether the step alone of a case is near the stated one.
bool as_stated(const Json& row, const JobsResult& result) {
  if (!row.contains("alone")) return true;
  const Json& alone = row.at("alone");
  const double predicted = job_named(result, alone.at("job").get<std::string>()).alone_s;
  return std::abs(predicted / alone.at("step_s").get<double>() - 1.0) <=
         alone.at("within").get<double>();
}

std::string supposed_of(const Json& row) {
  std::string text = row.at("supposed").get<std::string>();
  for (const Json& axis : row.at("not_stated"))
    text += fmt::format("; {}", axis.at("name").get<std::string>());
  return text;
}

}  // namespace

bool describes_jobs(const std::string& id) { return description_of(id) != nullptr; }

std::vector<JobRow> predict_jobs(const Json& entry) {
  const std::string id = entry.at("id").get<std::string>();
  const Json& row = *description_of(id);
  std::vector<JobRow> rows;
  for (const Json& figure : row.at("figures"))
    rows.push_back({.id = id,
                    .figure = figure.at("figure").get<std::string>(),
                    .quality = entry.value("quality", ""),
                    .source = entry.value("source", ""),
                    .published = figure.at("published").get<double>(),
                    .least = std::numeric_limits<double>::infinity(),
                    .most = -std::numeric_limits<double>::infinity(),
                    .supposed = supposed_of(row)});
  Memo memo;
  for_each_case(row.at("not_stated"), [&](const std::vector<Override>& changes) {
    const JobsResult result =
        simulate_jobs(read_jobs_document("job_rows.json", row.at("jobs"), changes),
                      {.most_steps = row.at("most_steps").get<std::uint32_t>()}, memo);
    const bool counts = as_stated(row, result);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ++rows[i].considered;
      if (!counts) continue;
      ++rows[i].cases;
      const std::string job = row.at("figures")[i].at("job").get<std::string>();
      // Sources publish the change of throughput: a step that takes 1.11 times as long is -9.9 %.
      const double throughput = 1.0 / job_named(result, job).slowdown() - 1.0;
      rows[i].least = std::min(rows[i].least, throughput);
      rows[i].most = std::max(rows[i].most, throughput);
    }
  });
  // Without a case there is no range. The caller reports the row as left out.
  std::erase_if(rows, [](const JobRow& one) { return one.cases == 0; });
  return rows;
}

std::string job_rows_text(const std::vector<JobRow>& rows) {
  if (rows.empty()) return "";
  TextTable table({"run", "quality", "figure", "published", "predicted", "cases", "within"});
  std::string supposed;
  std::string last;
  for (const JobRow& row : rows) {
    table.row({row.id, row.quality, row.figure, signed_percent(row.published),
               fmt::format("{} to {}", signed_percent(row.least), signed_percent(row.most)),
               fmt::format("{} of {}", row.cases, row.considered), row.contains() ? "yes" : "no"});
    if (row.id != last) supposed += wrapped(fmt::format("  {}: {}", row.id, row.supposed), 4);
    last = row.id;
  }
  return "\nSeveral jobs, over what is not stated\n" + table.text() + "Supposed\n" + supposed;
}

Json job_rows_json(const std::vector<JobRow>& rows) {
  Json all = Json::array();
  for (const JobRow& row : rows)
    all.push_back({{"id", row.id},
                   {"figure", row.figure},
                   {"quality", row.quality},
                   {"source", row.source},
                   {"published", row.published},
                   {"least", row.least},
                   {"most", row.most},
                   {"cases", row.cases},
                   {"considered", row.considered},
                   {"within", row.contains()},
                   {"supposed", row.supposed}});
  return all;
}

}  // namespace trainyard
