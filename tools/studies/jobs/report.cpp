#include "tools/studies/jobs/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/render/text_table.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// Returns "8 leaf_spine, such as leaf 0 -> spine 0".
std::string links_text(const Result& run, std::uint32_t link_class, std::uint32_t links) {
  const Link link = run.cluster->link(run.partition->links[link_class].representative);
  return fmt::format("{} {}, such as {} -> {}", links, to_string(link.kind),
                     run.cluster->name(link.from), run.cluster->name(link.to));
}

std::string work_of(const JobSpec& job) {
  return job.traffic ? to_text(*job.traffic) : job.scenario->description;
}

}  // namespace

TextTable jobs_table(const Jobs& jobs, const JobsResult& result) {
  TextTable table({"job", "GPUs", "placement", "start", "alone", "together", "shortest", "longest",
                   "slowdown"});
  for (std::size_t i = 0; i < jobs.all.size(); ++i) {
    const JobSpec& job = jobs.all[i];
    const JobResult& one = result.jobs[i];
    table.row({job.name, fmt::format("{}", one.gpus.size()), to_text(job.placement),
               to_text(job.start), to_text(Seconds{one.alone_s}), to_text(Seconds{one.together_s}),
               to_text(Seconds{one.shortest_s}), to_text(Seconds{one.longest_s}),
               fmt::format("{:.3f} x", one.slowdown())});
  }
  return table;
}

TextTable memory_table(const Jobs& jobs, const JobsResult& result) {
  std::vector<std::string> columns{"job", "memory of a GPU"};
  if (result.power)
    for (const char* column : {"power of a GPU", "energy of its GPUs per step, alone", "together"})
      columns.emplace_back(column);
  const bool priced = std::ranges::any_of(
      result.jobs, [](const JobResult& job) { return job.gpu_hour_cost.has_value(); });
  if (priced)
    for (const char* column : {"its GPUs for a million tokens, alone", "together"})
      columns.emplace_back(column);
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < jobs.all.size(); ++i) {
    const JobResult& one = result.jobs[i];
    std::vector<std::string> row{
        jobs.all[i].name,
        one.peak_bytes > 0 ? to_text(Bytes{static_cast<double>(one.peak_bytes)}) : "-"};
    if (result.power) {
      const auto gpus = static_cast<double>(one.gpus.size());
      row.push_back(fmt::format("{:.0f} W", *one.together_j / one.together_s / gpus));
      for (const double joules : {*one.alone_j, *one.together_j})
        row.push_back(fmt::format("{:.4g} kJ", joules / 1e3));
    }
    if (priced)
      for (const double step_s : {one.alone_s, one.together_s}) {
        const auto cost = one.cost_of_million_tokens(step_s);
        row.push_back(cost ? fmt::format("{:.4g}", *cost) : "-");
      }
    table.row(std::move(row));
  }
  return table;
}

namespace {

// Returns " An hour takes 61.2 kWh, which cost 6.1 and emit 24 kg of CO2."
std::string hour_sentence(const ClusterPower& power) {
  const double kwh = power.mean_w() / 1e3;
  std::vector<std::string> effects;
  if (const auto& price = power.prices.per_kwh)
    effects.push_back(fmt::format("cost {:.4g}", kwh * *price));
  if (const auto& carbon = power.prices.kg_co2_per_kwh)
    effects.push_back(fmt::format("emit {:.4g} kg of CO2", kwh * *carbon));
  if (effects.empty()) return "";
  return fmt::format(" An hour takes {:.4g} kWh, which {}.", kwh, fmt::join(effects, " and "));
}

}  // namespace

std::string power_sentence(const Jobs& jobs, const JobsResult& result) {
  if (const auto& power = result.power)
    return fmt::format(
        "The cluster draws {:.4g} kW on average and {:.4g} kW at most, with hosts, switches and "
        "cooling; the power of a rack changes by up to {:.3g} kW within 10 ms and {:.3g} kW within "
        "1 s. The energy of GPUs is what their boards take.{}",
        power->mean_w() / 1e3, power->peaks.cluster_w / 1e3, power->peaks.rack_change_w[0] / 1e3,
        power->peaks.rack_change_w[2] / 1e3, hour_sentence(*power));
  const auto has_power = [](const JobSpec& job) { return job.scenario && job.scenario->power; };
  if (std::ranges::none_of(jobs.all, has_power)) return "";
  // The power of the cluster is known only if each training job has a block `power`, so one lacks
  // it here.
  const auto without = std::ranges::find_if(
      jobs.all, [&](const JobSpec& job) { return job.scenario && !has_power(job); });
  return fmt::format("POWER AND ENERGY ARE NOT REPORTED: job {} has no block \"power\".",
                     without->name);
}

std::string steps_sentence(const JobsResult& result) {
  std::vector<std::string> steps;
  for (const JobResult& job : result.jobs)
    steps.push_back(fmt::format("{} of {}", job.steps, job.name));
  const std::string list = fmt::format("{}", fmt::join(steps, ", "));
  if (result.repetition)
    return fmt::format("The steps repeat every {}, from {} on: {}.",
                       to_text(Seconds{result.repetition->period_s}),
                       to_text(Seconds{result.begin_s}), list);
  if (result.counted) return fmt::format("The steps are those that the file asks for: {}.", list);
  return fmt::format(
      "The steps do not repeat in the {} that were simulated. Step times are means of those from "
      "{} "
      "on: {}.",
      to_text(Seconds{result.end_s}), to_text(Seconds{result.begin_s}), list);
}

namespace {

// Links of one kind that the same jobs share.
struct SharedKind {
  std::uint32_t link_class = 0;  // that with the most shared time
  std::uint32_t links = 0;
  std::vector<double> busy_s = {};  // the longest, by job
  double shared_s = 0.0;            // the longest
};

// Returns one row for each kind of link and set of jobs, those that limit flows first.
std::vector<std::pair<const LinkSharing*, SharedKind>> by_kind(const JobsResult& result) {
  // A fat tree has many link classes of one kind with the same jobs on them. One row counts their
  // links and shows the longest times among them.
  std::map<std::tuple<bool, LinkKind, std::vector<std::uint32_t>>, std::size_t> row_of;
  std::vector<std::pair<const LinkSharing*, SharedKind>> rows;
  for (const LinkSharing& one : result.sharing) {
    const LinkClass& links = result.run.partition->links[one.link_class];
    const LinkKind kind = result.run.cluster->link(links.representative).kind;
    const auto [row, fresh] = row_of.try_emplace({one.contended, kind, one.jobs}, rows.size());
    if (fresh)
      rows.push_back(
          {&one,
           {.link_class = one.link_class, .busy_s = std::vector<double>(one.jobs.size(), 0.0)}});
    SharedKind& all = rows[row->second].second;
    all.links += links.members;
    all.shared_s = std::max(all.shared_s, one.shared_s);
    for (std::size_t job = 0; job < one.jobs.size(); ++job)
      all.busy_s[job] = std::max(all.busy_s[job], one.busy_s[job]);
  }
  std::ranges::stable_partition(rows, [](const auto& row) { return row.first->contended; });
  return rows;
}

}  // namespace

TextTable shared_links_table(const JobsResult& result) {
  TextTable table({"links", "jobs", "in use", "shared", "limits"});
  for (const auto& [one, all] : by_kind(result)) {
    std::vector<std::string> names;
    std::vector<std::string> busy;
    for (std::size_t entry = 0; entry < one->jobs.size(); ++entry) {
      names.push_back(result.jobs[one->jobs[entry]].name);
      busy.push_back(to_text(Seconds{all.busy_s[entry]}));
    }
    table.row({links_text(result.run, all.link_class, all.links),
               fmt::format("{}", fmt::join(names, ", ")), fmt::format("{}", fmt::join(busy, ", ")),
               to_text(Seconds{all.shared_s}), one->contended ? "yes" : "no"});
  }
  return table;
}

namespace {

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json json_of_job(const JobSpec& job, const JobResult& one) {
  Json json{
      {"name", job.name},
      {"work", work_of(job)},
      {"gpus", one.gpus},
      {"placement", to_text(job.placement)},
      {"start_s", job.start.value()},
      {"priority", job.priority},
      {"alone_s", one.alone_s},
      {"together_s", one.together_s},
      {"slowdown", one.slowdown()},
      {"shortest_s", one.shortest_s},
      {"longest_s", one.longest_s},
      {"steps", one.steps},
      {"step_ends_s", one.ends_s},
      {"peak_bytes", one.peak_bytes > 0 ? Json(one.peak_bytes) : Json(nullptr)},
      {"alone_j", json_of(one.alone_j)},
      {"together_j", json_of(one.together_j)},
      {"gpu_hour_cost", json_of(one.gpu_hour_cost)},
      {"alone_cost_of_million_tokens", json_of(one.cost_of_million_tokens(one.alone_s))},
      {"together_cost_of_million_tokens", json_of(one.cost_of_million_tokens(one.together_s))}};
  json["tokens_per_s"] =
      one.tokens_per_step > 0.0 ? Json(one.tokens_per_step / one.together_s) : Json(nullptr);
  return json;
}

}  // namespace

std::string jobs_text(const Jobs& jobs, const JobsResult& result) {
  std::string text = fmt::format("{}\n{} jobs on {}\n\n", jobs.description, jobs.all.size(),
                                 result.run.cluster->facts().name);
  text += jobs_table(jobs, result).text() + "\n" + wrapped(steps_sentence(result), 0) + "\n";
  if (result.sharing.empty()) {
    text += "No two jobs use the same link.\n";
  } else {
    text += fmt::format("Links that several jobs use: the longest times within {}\n",
                        to_text(Seconds{result.end_s - result.begin_s}));
    text += shared_links_table(result).text();
  }
  text += "\n" + memory_table(jobs, result).text();
  if (const std::string power = power_sentence(jobs, result); !power.empty())
    text += wrapped(power, 0);
  for (const Approximation& one : result.run.facts.approximations)
    text += wrapped(fmt::format("approximation: {}", one.sentence), 2);
  return text;
}

Json jobs_json(const Jobs& jobs, const JobsResult& result) {
  Json json{{"description", jobs.description},
            {"cluster", result.run.cluster->facts().name},
            {"engine", jobs.engine},
            {"jobs", Json::array()},
            {"repetition", nullptr},
            {"begin_s", result.begin_s},
            {"end_s", result.end_s},
            {"shared_links", Json::array()},
            {"power", nullptr},
            {"approximations", Json::array()}};
  for (std::size_t i = 0; i < jobs.all.size(); ++i)
    json["jobs"].push_back(json_of_job(jobs.all[i], result.jobs[i]));
  if (const auto& found = result.repetition)
    json["repetition"] = {{"begin_s", found->begin_s},
                          {"period_s", found->period_s},
                          {"first_step", found->first},
                          {"steps", found->steps}};
  for (const LinkSharing& one : result.sharing) {
    const LinkClass& links = result.run.partition->links[one.link_class];
    const Link link = result.run.cluster->link(links.representative);
    Json entry{{"links", links.members},
               {"kind", to_string(link.kind)},
               {"from", result.run.cluster->name(link.from)},
               {"to", result.run.cluster->name(link.to)},
               {"jobs", Json::array()},
               {"busy_s", one.busy_s},
               {"shared_s", one.shared_s},
               {"limits", one.contended}};
    for (const std::uint32_t job : one.jobs) entry["jobs"].push_back(result.jobs[job].name);
    json["shared_links"].push_back(std::move(entry));
  }
  if (const auto& power = result.power)
    json["power"] = {{"mean_w", {{"cluster", power->mean_w()}}},
                     {"peak_w",
                      {{"gpu", power->peaks.gpu_w},
                       {"node", power->peaks.node_w},
                       {"cluster", power->peaks.cluster_w}}},
                     {"rack_change_w",
                      {{"within_10_ms", power->peaks.rack_change_w[0]},
                       {"within_100_ms", power->peaks.rack_change_w[1]},
                       {"within_1_s", power->peaks.rack_change_w[2]}}},
                     {"per_kwh", json_of(power->prices.per_kwh)},
                     {"kg_co2_per_kwh", json_of(power->prices.kg_co2_per_kwh)}};
  for (const Approximation& one : result.run.facts.approximations)
    json["approximations"].push_back(
        {{"name", one.name}, {"count", one.count}, {"sentence", one.sentence}});
  return json;
}

}  // namespace trainyard
