#include "kernels/bench/measured_profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard::bench {

namespace {

// Linear interpolation between the neighbouring samples.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  TY_CHECK(!samples.empty(), samples.size());
  std::ranges::sort(samples);
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9)};
}

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* schema_name = "trainyard.measured_kernels";
constexpr std::int64_t schema_version = 1;

// Rows are comparable where these are equal. Date, clocks and command may differ.
constexpr std::array same_throughout = {"gpu", "driver", "cuda_runtime", "cublaslt", "cudnn"};

Json row_to_json(const MeasuredRow& row) {
  Json json = {{"kernel", task_to_json(row.task)},
               {"time_us_median", row.time_us.median},
               {"time_us_p10", row.time_us.p10},
               {"time_us_p90", row.time_us.p90}};
  if (!row.chosen.empty()) json["chosen"] = row.chosen;
  if (row.interference)
    json["interference"] = {
        {"alone_us", row.interference->alone_us},
        {"copied_bytes_per_s", row.interference->copied_bytes_per_s},
        {"copied_alone_bytes_per_s", row.interference->copied_alone_bytes_per_s}};
  json["checked"] = true;
  return json;
}

MeasuredRow read_row(JsonObject& row) {
  MeasuredRow read{.task = read_task(row.object("kernel")),
                   .time_us = {.median = row.number("time_us_median", {.least = 0}),
                               .p10 = row.number("time_us_p10", {.least = 0}),
                               .p90 = row.number("time_us_p90", {.least = 0})},
                   .chosen = row.text("chosen", "")};
  if (std::holds_alternative<Interference>(read.task)) {
    JsonObject interference = row.object("interference");
    constexpr double positive = 1e-6;
    const auto figure = [&interference](const char* key) {
      return interference.number(key, {.least = positive});
    };
    read.interference = {.alone_us = figure("alone_us"),
                         .copied_bytes_per_s = figure("copied_bytes_per_s"),
                         .copied_alone_bytes_per_s = figure("copied_alone_bytes_per_s")};
  }
  if (!row.boolean("checked"))
    row.report("checked", "is false", "a row is kept only when its result was checked");
  if (read.time_us.p10 > read.time_us.median || read.time_us.median > read.time_us.p90)
    row.report("time_us_median", "is not between time_us_p10 and time_us_p90");
  return read;
}

// Adds the rows of an earlier file that are not measured yet. They must be from the same machine.
void take_rows(MeasuredProfile& into, const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return;
  const MeasuredProfile old = read_profile(file);
  refuse_other_machines(into.provenance, old.provenance, file.string());
  for (const MeasuredRow& row : old.rows)
    if (!into.has(row.task)) into.rows.push_back(row);
}

}  // namespace

void refuse_other_machines(const Json& one, const Json& other, const std::string& file) {
  for (const char* key : same_throughout) {
    const Json before = other.value(key, Json());
    const Json now = one.value(key, Json());
    if (before != now)
      throw InputError(Problem{file, std::string("/provenance/") + key,
                               "is " + shown(before) + ", but here it is " + shown(now),
                               "name another file (--output): rows of one profile must compare"});
  }
}

bool MeasuredProfile::has(const Task& task) const {
  return std::ranges::any_of(rows, [&task](const MeasuredRow& row) { return row.task == task; });
}

Json profile_to_json(const MeasuredProfile& profile) {
  Json rows = Json::array();
  for (const MeasuredRow& row : profile.rows) rows.push_back(row_to_json(row));
  return {{"schema", schema_name},
          {"version", schema_version},
          {"provenance", profile.provenance},
          {"rows", std::move(rows)}};
}

MeasuredProfile read_profile(const std::filesystem::path& file) {
  JsonFile json = JsonFile::read(file);
  JsonObject root = json.root();
  (void)root.choice("schema", {schema_name});
  (void)root.integer("version", {.least = schema_version, .most = schema_version});
  MeasuredProfile profile;
  profile.provenance = root.raw("provenance");
  root.ignore("provenance");
  if (!profile.provenance.is_object())
    root.report("provenance", "must be an object", "say on which GPU the rows were measured");
  for (JsonObject& row : root.objects("rows")) profile.rows.push_back(read_row(row));
  json.finish();
  return profile;
}

// An interrupted measurement continues from the finished and the partial file.
MeasuredProfile resume_profile(const std::filesystem::path& file, const Json& provenance) {
  MeasuredProfile profile{.provenance = provenance, .rows = {}};
  take_rows(profile, file);
  take_rows(profile, partial_name(file));
  return profile;
}

std::filesystem::path partial_name(const std::filesystem::path& file) {
  return file.string() + ".partial";
}

void write_partial(const MeasuredProfile& profile, const std::filesystem::path& file) {
  write_file(partial_name(file), profile_to_json(profile).dump(1) + "\n");
}

void finish_profile(const MeasuredProfile& profile, const std::filesystem::path& file) {
  // A rename replaces the file at once, so that an interruption leaves the old or the new profile.
  write_partial(profile, file);
  std::filesystem::rename(partial_name(file), file);
}

}  // namespace trainyard::bench
