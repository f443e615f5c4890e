#include "kernels/bench/profile_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/fit/samples.hpp"
#include "kernels/gpu.hpp"
#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/median.hpp"
#include "sim/workload/kernel_json.hpp"

namespace trainyard::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* compared_keys[] = {"gpu",      "driver", "cuda_runtime",
                                         "cublaslt", "cudnn",  "date"};

// The kernel that a simulation prices for a task. Tasks that only calibrate a model (launches,
// interference, fused and unfused variants) have none.
struct KernelOf {
  std::optional<Kernel> operator()(const RowKernel& kernel) const {
    return as_memory_bound(kernel);
  }
  std::optional<Kernel> operator()(const Launches&) const { return std::nullopt; }
  std::optional<Kernel> operator()(const Interference&) const { return std::nullopt; }
  std::optional<Kernel> operator()(const FusedGemm&) const { return std::nullopt; }
  std::optional<Kernel> operator()(const UnfusedAttention&) const { return std::nullopt; }
  template <class Same>
  std::optional<Kernel> operator()(const Same& kernel) const {
    return kernel;
  }
};

std::string summary_of(const Json& provenance) {
  std::string text;
  for (const char* key : compared_keys)
    if (provenance.contains(key))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key,
                          provenance[key].is_string() ? provenance[key].get<std::string>()
                                                      : provenance[key].dump());
  return text;
}

GroupChange group_change(const std::string& name, const std::vector<RowChange>& rows) {
  GroupChange group{.group = name};
  std::vector<double> ratios;
  for (const RowChange& row : rows) {
    if (task_category(row.task) != name) continue;
    ratios.push_back(row.ratio());
    if (row.beyond_spread) ++(row.ratio() > 1.0 ? group.slower : group.faster);
  }
  group.rows = ratios.size();
  if (!ratios.empty()) group.ratio = fit::median(std::move(ratios));
  return group;
}

std::vector<std::string_view> dtype_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(DataType::Fp8); ++i)
    names.push_back(to_string(static_cast<DataType>(i)));
  return names;
}

std::optional<DataType> dtype_named(const std::string& name) {
  const std::vector<std::string_view> names = dtype_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<DataType>(found - names.begin());
}

// Reports a size or a time that is not above 0.
template <class Number>
Number positive(const CsvTable& table, std::size_t row, const std::string& column, Number value) {
  if (value <= Number{0})
    table.refuse(row, fmt::format("has {} {}", column, value), "write a number above 0");
  return value;
}

std::int64_t size_in(const CsvTable& table, std::size_t row, const std::string& column) {
  return positive(table, row, column, table.integer(row, column));
}

Gemm csv_gemm(const CsvTable& table, std::size_t row, DataType dtype) {
  return {.m = size_in(table, row, "m"),
          .n = size_in(table, row, "n"),
          .k = size_in(table, row, "k"),
          .dtype = dtype};
}

Attention csv_attention(const CsvTable& table, std::size_t row, DataType dtype) {
  const std::int64_t sequence = size_in(table, row, "seq");
  const std::int64_t dim = size_in(table, row, "head_dim");
  return {.batch = size_in(table, row, "batch"),
          .query_heads = size_in(table, row, "heads"),
          .kv_heads = size_in(table, row, "kv_heads"),
          .query_length = sequence,
          .kv_length = sequence,
          .head_dim_qk = dim,
          .head_dim_v = dim,
          .pairs = sequence * (sequence + 1) / 2,
          .dtype = dtype};
}

// Sets the measured cost of communication. The profile's channel counts do not change.
void add_interference(Json& gpu_profile, const MeasuredProfile& rows) {
  const auto sms = gpu_profile["sheet"]["sms"]["value"].get<std::int64_t>();
  const auto factors = interference_factors(rows, sms);
  if (!factors) return;
  Json& held = gpu_profile["communication_sms"];
  held["slowed"] = factors->slowed;
  held["compute_loss"] = factors->compute_loss;
  held["source"] =
      fmt::format("{}; slowed and compute_loss: medians of {} rows, {}",
                  held.value("source", std::string()), factors->rows, summary_of(rows.provenance));
}

// Names a further source of the section's rows. Those from before keep theirs.
void extend(Json& section, const std::string& source, const Json& provenance) {
  const std::string before = section.value("source", std::string());
  Json origin = provenance;
  if (section.contains("provenance")) origin["before"] = section["provenance"];
  section["source"] = (before.empty() ? "" : before + "; ") + source;
  section["provenance"] = std::move(origin);
}

bool whole_attention(const CsvTable& table, std::size_t row) {
  return !table.has("window") || table.integer(row, "window") == 0;
}

}  // namespace

std::optional<Kernel> kernel_of(const Task& task) { return std::visit(KernelOf{}, task); }

MeasuredProfile merged(const std::vector<MeasuredProfile>& profiles) {
  TY_CHECK(!profiles.empty());
  MeasuredProfile all{.provenance = profiles.front().provenance, .rows = {}};
  Json sources = Json::array();
  for (const MeasuredProfile& profile : profiles) {
    refuse_other_machines(all.provenance, profile.provenance, "merge");
    sources.push_back(summary_of(profile.provenance));
    for (const MeasuredRow& row : profile.rows) {
      // The row of a later profile replaces that of an earlier one.
      const auto same = std::ranges::find(all.rows, row.task, &MeasuredRow::task);
      if (same == all.rows.end())
        all.rows.push_back(row);
      else
        *same = row;
    }
  }
  if (profiles.size() > 1) all.provenance["merged_from"] = sources;
  return all;
}

Json with_traced(Json gpu_profile, const std::vector<TracedKernelRow>& rows,
                 const Json& provenance) {
  Json& section = gpu_profile["measured"];
  if (!section.is_object()) section = Json::object();
  const Json old_rows = section.value("rows", Json::array());
  std::map<std::string, Json> traced;  // by the JSON text of the kernel
  for (const TracedKernelRow& row : rows) {
    const Json kernel = kernel_to_json(row.kernel);
    traced[kernel.dump()] = {{"kernel", kernel},
                             {"time_us", row.time_us},
                             {"in_step", true},
                             {"repetitions", row.repetitions}};
  }
  // A kernel may have two rows: one that `trainyard profile` measured, and one from a trace.
  Json kept = Json::array();
  for (const Json& row : old_rows)
    if (!row.value("in_step", false) || !traced.contains(row["kernel"].dump())) kept.push_back(row);
  for (const auto& [text, row] : traced) kept.push_back(row);
  extend(section, "traces of training steps: " + summary_of(provenance), provenance);
  section["rows"] = std::move(kept);
  return gpu_profile;
}

Json with_measured(Json gpu_profile, const MeasuredProfile& rows) {
  Json& section = gpu_profile["measured"];
  // Index of each stored row, by the JSON text of its kernel.
  std::map<std::string, std::size_t> place;
  if (!section.is_object()) section = Json::object();
  Json kept = section.value("rows", Json::array());
  std::size_t replaced = 0;
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (!kept[i].value("in_step", false)) place[kept[i]["kernel"].dump()] = i;
  for (const MeasuredRow& row : rows.rows) {
    const auto kernel = kernel_of(row.task);
    if (!kernel) continue;
    const Json entry = {{"kernel", kernel_to_json(*kernel)}, {"time_us", row.time_us.median}};
    const auto [found, fresh] = place.try_emplace(entry["kernel"].dump(), kept.size());
    if (fresh) {
      kept.push_back(entry);
    } else {
      kept[found->second] = entry;
      ++replaced;
    }
  }
  if (replaced == section.value("rows", Json::array()).size()) section = Json::object();
  extend(section, "trainyard profile: " + summary_of(rows.provenance), rows.provenance);
  section["rows"] = std::move(kept);
  add_interference(gpu_profile, rows);
  return gpu_profile;
}

// `slowed` is the fraction of its bandwidth that the copy loses. `compute_loss` is the fraction of
// its rate that the GEMM loses, per fraction of the SMs that the copy holds. Both are medians.
std::optional<InterferenceFactors> interference_factors(const MeasuredProfile& rows,
                                                        std::int64_t sms) {
  std::vector<double> slowed, losses;
  for (const MeasuredRow& row : rows.rows) {
    const auto* task = std::get_if<Interference>(&row.task);
    if (task == nullptr || !row.interference) continue;
    const double held = static_cast<double>(task->sms) / static_cast<double>(sms);
    // A run that is by chance faster than alone counts as no loss.
    slowed.push_back(std::max(0.0, 1.0 - row.interference->copied_bytes_per_s /
                                             row.interference->copied_alone_bytes_per_s));
    losses.push_back(std::max(0.0, 1.0 - row.interference->alone_us / row.time_us.median) / held);
  }
  if (slowed.empty()) return std::nullopt;
  const std::size_t count = slowed.size();
  return InterferenceFactors{.rows = count,
                             .slowed = median(std::move(slowed)),
                             .compute_loss = median(std::move(losses))};
}

ProfileDiff compared(const MeasuredProfile& before, const MeasuredProfile& after) {
  ProfileDiff diff;
  for (const char* key : compared_keys) {
    const Json old = before.provenance.value(key, Json());
    const Json now = after.provenance.value(key, Json());
    if (old != now)
      diff.provenance.push_back(fmt::format("{}: {} -> {}", key, shown(old), shown(now)));
  }
  // Rows of the later profile, by the text of their task.
  std::map<std::string, const MeasuredRow*> later;
  for (const MeasuredRow& row : after.rows) later[task_text(row.task)] = &row;
  std::vector<std::string> groups;
  for (const MeasuredRow& row : before.rows) {
    const auto found = later.find(task_text(row.task));
    if (found == later.end()) {
      ++diff.only_before;
      continue;
    }
    const Spread& old = row.time_us;
    const Spread& now = found->second->time_us;
    diff.rows.push_back({.task = row.task,
                         .before_us = old.median,
                         .after_us = now.median,
                         .beyond_spread = now.p10 > old.p90 || now.p90 < old.p10});
    const std::string group(task_category(row.task));
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  diff.only_after = after.rows.size() - diff.rows.size();
  // The largest changes come first, whether slower or faster.
  std::ranges::stable_sort(diff.rows, [](const RowChange& a, const RowChange& b) {
    return std::abs(std::log(a.ratio())) > std::abs(std::log(b.ratio()));
  });
  for (const std::string& group : groups) diff.groups.push_back(group_change(group, diff.rows));
  return diff;
}

std::string diff_text(const ProfileDiff& diff, std::size_t most) {
  std::string text;
  for (const std::string& line : diff.provenance) text += line + "\n";
  text += fmt::format("{:<10} {:>6} {:>8} {:>7} {:>7}   (time after / before)\n", "kernels", "rows",
                      "median", "slower", "faster");
  for (const GroupChange& group : diff.groups)
    text += fmt::format("{:<10} {:>6} {:>8.3f} {:>7} {:>7}\n", group.group, group.rows, group.ratio,
                        group.slower, group.faster);
  for (std::size_t i = 0; i < std::min(most, diff.rows.size()); ++i) {
    const RowChange& row = diff.rows[i];
    text += fmt::format("{:>8.3f}{} {:>10.2f} -> {:>10.2f} us  {}\n", row.ratio(),
                        row.beyond_spread ? "*" : " ", row.before_us, row.after_us,
                        task_text(row.task));
  }
  text += fmt::format("{} rows only before, {} only after; * beyond the spread of the runs\n",
                      diff.only_before, diff.only_after);
  return text;
}

MeasuredProfile from_csv(const std::filesystem::path& file, const CsvOrigin& origin) {
  const CsvTable table(file);
  const bool attention = table.has("head_dim");
  if (!attention && !table.has("n"))
    throw InputError(Problem{file.string(), "", "has neither columns m, n, k nor seq, head_dim",
                             "give a table of GEMMs or of causal attention"});
  // Times of equal rows are collected under the text of their task.
  std::map<std::string, std::pair<Task, std::vector<double>>> by_task;
  std::size_t left_out = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto dtype = dtype_named(table.text(row, "dtype"));
    if (!dtype || (attention && !whole_attention(table, row))) {
      ++left_out;
      continue;
    }
    const Task task =
        attention ? Task{csv_attention(table, row, *dtype)} : Task{csv_gemm(table, row, *dtype)};
    auto& [known, times] = by_task[task_text(task)];
    known = task;
    times.push_back(positive(table, row, "time_us", table.number(row, "time_us")));
  }
  if (by_task.empty())
    throw InputError(Problem{file.string(), "",
                             fmt::format("has no row that can be taken, of {}", table.rows()),
                             fmt::format("give rows of dtype {}, of attention without window",
                                         fmt::join(dtype_names(), ", "))});
  MeasuredProfile profile{.provenance = {{"gpu", origin.gpu},
                                         {"source", origin.source},
                                         {"table", file.filename().string()},
                                         {"date", origin.date},
                                         {"rows_left_out", left_out}},
                          .rows = {}};
  for (auto& [text, entry] : by_task) {
    auto& [task, times] = entry;
    // The fastest and the slowest of equal rows stand for p10 and p90.
    std::ranges::sort(times);
    profile.rows.push_back(
        {task, {.median = fit::median(times), .p10 = times.front(), .p90 = times.back()}, ""});
  }
  return profile;
}

namespace {

constexpr double kSecondsPerUs = 1e-6;

// "gemm bf16", "attention bf16"; for other tasks only the group.
std::string kind_of(const Task& task, const Kernel& kernel) {
  std::string name(task_category(task));
  if (const auto* gemm = std::get_if<Gemm>(&kernel))
    name += " " + std::string(to_string(gemm->dtype));
  if (const auto* attention = std::get_if<Attention>(&kernel))
    name += " " + std::string(to_string(attention->dtype));
  return name;
}

constexpr double kLeastTimeUs = 1e-3;

struct Kind {
  std::size_t known = 0;
  std::vector<double> ratios = {};
};

}  // namespace

std::vector<fit::Judgement> judge_rows(const MeasuredProfile& rows,
                                       const std::string& gpu_profile) {
  const PricedGpu gpu = load_gpu(gpu_profile, Clock::Burst);
  std::map<std::string, Kind> kinds;
  for (const MeasuredRow& row : rows.rows) {
    const std::optional<Kernel> kernel = kernel_of(row.task);
    if (!kernel) continue;
    if (!(row.time_us.median >= kLeastTimeUs)) {
      throw InputError(
          Problem{{},
                  {},
                  fmt::format("{} us is the time of a kernel, less than a clock measures",
                              row.time_us.median),
                  "leave the row out"});
    }
    const Cost cost = gpu.model->cost(*kernel);
    // Measured kernels count as known, and their errors count too: they compare two machines.
    Kind& kind = kinds[kind_of(row.task, *kernel)];
    kind.known += cost.provenance == Provenance::Measured ? 1 : 0;
    kind.ratios.push_back(cost.time.value() / (row.time_us.median * kSecondsPerUs));
  }
  if (kinds.empty())
    throw InputError(Problem{{},
                             {},
                             "no row is of a kernel that a simulation runs",
                             "measure GEMMs, attention or copies"});
  std::vector<fit::Judgement> judgements;
  for (auto& [name, kind] : kinds) {
    judgements.push_back(
        {gpu.sheet.name, name, kind.known, fit::errors_of(std::move(kind.ratios))});
  }
  return judgements;
}

}  // namespace trainyard::bench
