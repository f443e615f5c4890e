// Fits the factors of grouped GEMMs to measured modules of experts, and evaluates them on modules
// that were not part of the fit.
//
// An entry of the tables times one rank's whole module without communication (expert_module.hpp).
// The memory model and one constant give the time of the parts that are not GEMMs. The remaining
// time determines the factors of the two GEMMs together.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/expert_module.hpp"
#include "kernels/fit/samples.hpp"

namespace trainyard::fit {

struct ModuleSample {
  ExpertModule module;
  double seconds = 0.0;
};

struct ModuleSamples {
  std::vector<ModuleSample> medians;
  std::size_t rows = 0;
};

// Reads entries that are not marked as suspect, of one precision and routing. Equal modules are
// replaced by their median.
[[nodiscard]] ModuleSamples read_module_samples(const std::filesystem::path& file,
                                                const std::string& precision,
                                                const std::string& routing = "balanced");
// The routings of a table, sorted by name.
[[nodiscard]] std::vector<std::string> read_routings(const std::filesystem::path& file);

struct GroupedFit {
  std::array<std::vector<std::int64_t>, 3> axes{};  // mean rows, experts, weights / 1024
  std::vector<double> log_factor{};
};

// Fits the time of a module in addition to its GEMMs: the constant part, and the share of permute
// and activation traffic that the kernels of the tables did not fuse. The result leaves the
// smallest error when one factor is applied to all GEMMs.
[[nodiscard]] GroupedModel fit_module_rest(GpuProfile profile,
                                           const std::vector<ModuleSample>& samples);
// Fits the factors of the GEMMs, after that time is removed. A module that is slow because of one
// bad choice of kernels has no more influence than others (Huber's loss, 10 %).
[[nodiscard]] GroupedFit fit_grouped(const GpuProfile& profile,
                                     const std::vector<ModuleSample>& samples);
[[nodiscard]] GroupedTable table_of(DataType dtype, const GroupedFit& fit);
void add_series(ExpertTable& table, const std::vector<ModuleSample>& samples);

// Errors on modules that were not part of the fit, neither of the factors (fitted only on balanced
// routing) nor of the series.
struct ModuleErrors {
  Errors series;               // of module_cost
  Errors model;                // without the series, as for a kind that was never measured
  std::vector<double> ratios;  // predicted / measured, from which `series` is computed
};
[[nodiscard]] ModuleErrors held_out_modules(const GpuProfile& profile,
                                            const std::vector<ModuleSample>& samples,
                                            const HoldOut& hold_out);

}  // namespace trainyard::fit
