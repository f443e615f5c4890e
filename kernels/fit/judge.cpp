#include "kernels/fit/judge.hpp"

#include <fmt/format.h>

#include <set>
#include <string_view>

#include "kernels/expert_module.hpp"
#include "kernels/fit/attention_fit.hpp"
#include "kernels/fit/fit_profile.hpp"
#include "kernels/fit/gemm_fit.hpp"
#include "kernels/fit/grouped_fit.hpp"
#include "kernels/fit/samples.hpp"
#include "kernels/fit/single_fit.hpp"
#include "kernels/gpu.hpp"
#include "kernels/grouped_gemm.hpp"
#include "kernels/profile.hpp"
#include "sim/base/error.hpp"

namespace trainyard::fit {

namespace {

namespace fs = std::filesystem;

struct GemmRows {
  fs::path file;
  DataType dtype = DataType::Bf16;
  std::vector<Sample> medians;
};

// The rows of one GPU in a folder; empty where there is no table.
struct Rows {
  std::vector<GemmRows> gemms;
  std::vector<AttentionSample> attention;
  std::vector<std::vector<ModuleSample>> modules;  // of one precision and routing each
  std::vector<PublishedExperts> in_turn;  // experts' GEMMs as a training framework launches them
};

// True if the rows with layouts were timed on the profile's own generation.
bool own_layouts(const Target& target) {
  return std::string_view(target.layouts_profile) == target.profile;
}

Rows read_rows(const fs::path& measured, const Target& target, const GpuSheet& sheet) {
  Rows rows;
  if (const fs::path file = measured / "gemm" / target.table; fs::exists(file))
    for (const DataType dtype : {DataType::Bf16, DataType::Fp8}) {
      auto samples = read_gemm_samples(file, std::string(to_string(dtype)),
                                       recorded_quantisations(target.profile));
      if (!samples.medians.empty() && sheet.peak(dtype).value() > 0.0)
        rows.gemms.push_back({file, dtype, std::move(samples.medians)});
    }
  if (const fs::path file = measured / "attention" / target.table; fs::exists(file))
    rows.attention = read_attention_samples(file, target.attention_backend).medians;
  if (const fs::path file = measured / "moe" / target.table; fs::exists(file))
    for (const std::string& routing : read_routings(file))
      for (const char* precision : module_precisions) {
        auto samples = read_module_samples(file, precision, routing);
        if (!samples.medians.empty()) rows.modules.push_back(std::move(samples.medians));
      }
  if (const fs::path file = measured / "other.json"; fs::exists(file) && own_layouts(target))
    for (PublishedExperts& row : read_published(file).experts)
      if (row.gpu == target.layouts && !row.adds_to_half) rows.in_turn.push_back(std::move(row));
  return rows;
}

std::string name_of(const std::vector<ModuleSample>& samples) {
  const ExpertModule& first = samples.front().module;
  return fmt::format("experts {} {}", first.precision, first.routing);
}

std::string name_of(const GemmRows& rows) { return fmt::format("gemm {}", to_string(rows.dtype)); }

// Counts the shapes that the profile has measured, and collects the errors of the others.
class Tally {
 public:
  Tally(std::string gpu, std::string what) : judgement_{std::move(gpu), std::move(what), 0, {}} {}
  void add(Provenance provenance, double ratio) {
    if (provenance == Provenance::Measured)
      ++judgement_.known;
    else
      ratios_.push_back(ratio);
  }
  void add(const Cost& answer, double measured) {
    add(answer.provenance, answer.time.value() / measured);
  }
  [[nodiscard]] Judgement judged() && {
    if (!ratios_.empty()) judgement_.errors = errors_of(std::move(ratios_));
    return std::move(judgement_);
  }

 private:
  Judgement judgement_;
  std::vector<double> ratios_;
};

void judge_one(const Target& target, const Rows& rows, std::vector<Judgement>& judgements) {
  const GpuProfile profile = load_profile(target.profile);
  // The tables have single kernels, which run at the burst clock.
  const auto model = load_cost_model(target.profile, Clock::Burst);
  for (const GemmRows& gemms : rows.gemms) {
    Tally tally(target.profile, name_of(gemms));
    for (const Sample& s : gemms.medians) {
      const Cost answer = model->cost(
          Gemm{.m = s.shape[0], .n = s.shape[1], .k = s.shape[2], .dtype = gemms.dtype});
      tally.add(answer.provenance, s.ratio(answer.time.value()));
    }
    judgements.push_back(std::move(tally).judged());
  }
  if (!rows.attention.empty()) {
    Tally tally(target.profile, "attention bf16");
    for (const AttentionSample& s : rows.attention)
      // Measured times of attention include storing keys and values, which the cost model does not
      // price.
      tally.add({table_time(profile.sheet, profile.attention, profile.attention.table_append, s),
                 Provenance::Interpolated},
                s.seconds);
    judgements.push_back(std::move(tally).judged());
  }
  const ExpertTable table = load_expert_table(profile);
  for (const auto& modules : rows.modules) {
    Tally tally(target.profile, name_of(modules));
    for (const ModuleSample& s : modules)
      tally.add(module_cost(profile, table, s.module), s.seconds);
    judgements.push_back(std::move(tally).judged());
  }
  if (rows.in_turn.empty()) return;
  Tally tally(target.profile, "experts in training bf16");
  for (const PublishedExperts& row : rows.in_turn)
    tally.add({grouped_cost(profile.sheet, profile.gemm, profile.grouped, row.gemm).time,
               Provenance::Interpolated},
              row.seconds);
  judgements.push_back(std::move(tally).judged());
}

// Fits the GEMMs, and the quantisation that is removed from their rows, without the drawn shapes.
// Nothing of an evaluated shape contributes to a constant.
Errors held_out_gemms(const GpuSheet& sheet, const GemmRows& rows, const HoldOut& hold_out) {
  const std::vector<bool> drawn = draw(rows.medians.size(), hold_out);
  std::set<std::array<std::int64_t, 3>> shapes;
  for (std::size_t i = 0; i < drawn.size(); ++i)
    if (drawn[i]) shapes.insert(rows.medians[i].shape);
  const std::string dtype(to_string(rows.dtype));
  const Quantisations quantisation_costs =
      rows.dtype == DataType::Fp8 ? quantisations(CsvTable(rows.file), shapes) : Quantisations{};
  std::vector<Sample> seen, unseen;
  for (const Sample& sample : read_gemm_samples(rows.file, dtype, quantisation_costs).medians)
    (shapes.contains(sample.shape) ? unseen : seen).push_back(sample);
  return unseen_gemm(sheet, rows.dtype, seen, unseen);
}

// Evaluates each GPU of `targets` that has tables in the folder. Throws InputError if none has.
template <class Judge>
std::vector<Judgement> over_gpus(const fs::path& measured, const Judge& judge) {
  std::vector<Judgement> judgements;
  for (const Target& target : targets)
    judge(target, read_rows(measured, target, load_gpu_sheet(target.profile)), judgements);
  if (judgements.empty())
    throw InputError(Problem{measured.string(), "", "holds no table of a GPU known here",
                             "give a folder with gemm/, attention/ or moe/ and files such as "
                             "h100_sxm.csv in them"});
  return judgements;
}

std::string percent(double share, bool sign) {
  return sign ? fmt::format("{:+.1f} %", share * 100) : fmt::format("{:.1f} %", share * 100);
}

}  // namespace

std::vector<Judgement> judge_profiles(const fs::path& measured) {
  return over_gpus(measured, judge_one);
}

std::vector<Judgement> judge_held_out(const fs::path& measured, const HoldOut& hold_out) {
  return over_gpus(measured, [&](const Target& target, const Rows& rows, auto& judgements) {
    const GpuProfile profile = load_profile(target.profile);
    const auto add = [&](std::string what, const Errors& errors) {
      judgements.push_back({target.profile, std::move(what), 0, errors});
    };
    for (const GemmRows& gemms : rows.gemms)
      add(name_of(gemms), held_out_gemms(profile.sheet, gemms, hold_out));
    if (!rows.attention.empty())
      add("attention bf16", held_out_attention(profile.sheet, rows.attention, hold_out));
    std::vector<double> of_all;
    for (const auto& modules : rows.modules) {
      const ModuleErrors errors = held_out_modules(profile, modules, hold_out);
      add(name_of(modules), errors.series);
      of_all.insert(of_all.end(), errors.ratios.begin(), errors.ratios.end());
    }
    if (!of_all.empty()) add("experts, all of these", errors_of(std::move(of_all)));
  });
}

std::string judgement_text(const std::vector<Judgement>& judgements, bool markdown) {
  std::string text =
      markdown ? "| GPU | kernels | shapes | median | p95 | bias |\n|---|---|---|---|---|---|\n"
               : fmt::format("{:<10} {:<30} {:>7} {:>7} {:>8} {:>8} {:>8}\n", "GPU", "kernels",
                             "known", "judged", "median", "p95", "bias");
  for (const Judgement& j : judgements) {
    const bool any = j.errors.count > 0;
    const std::string median = any ? percent(j.errors.median, false) : "-";
    const std::string p95 = any ? percent(j.errors.p95, false) : "-";
    const std::string bias = any ? percent(j.errors.bias, true) : "-";
    text += markdown ? fmt::format("| {} | {} | {} | {} | {} | {} |\n", j.gpu, j.what,
                                   j.errors.count, median, p95, bias)
                     : fmt::format("{:<10} {:<30} {:>7} {:>7} {:>8} {:>8} {:>8}\n", j.gpu, j.what,
                                   j.known, j.errors.count, median, p95, bias);
  }
  return text;
}

}  // namespace trainyard::fit
