#include "kernels/bench/judge_rows.hpp"

#include <fmt/format.h>

#include <map>

#include "kernels/bench/profile_files.hpp"
#include "kernels/gpu.hpp"

namespace trainyard::bench {

namespace {

constexpr double kSecondsPerUs = 1e-6;

// "gemm bf16", "attention bf16"; of others the group alone.
std::string kind_of(const Task& task, const Kernel& kernel) {
  std::string name(task_group(task));
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
    Kind& kind = kinds[kind_of(row.task, *kernel)];
    kind.known += cost.provenance == Provenance::Measured ? 1 : 0;
    kind.ratios.push_back(cost.time.value() / (row.time_us.median * kSecondsPerUs));
  }
  if (kinds.empty())
    throw InputError(Problem{{},
                             {},
                             "no row is of a kernel that a simulation runs",
                             "measure products, attention or copies"});
  std::vector<fit::Judgement> judgements;
  for (auto& [name, kind] : kinds) {
    judgements.push_back(
        {gpu.sheet.name, name, kind.known, fit::errors_of(std::move(kind.ratios))});
  }
  return judgements;
}

}  // namespace trainyard::bench
