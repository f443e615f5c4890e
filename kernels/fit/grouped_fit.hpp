// Fits the factors of grouped products to measured modules of experts, and judges them on modules
// they have not seen.
//
// A row of the tables times one rank's whole module without communication (expert_module.hpp). The
// parts that are no products are taken from the memory model and one constant; what is left decides
// the factors of the two products together.
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

// Rows that are not suspect, of one precision and routing; equal modules become their median.
[[nodiscard]] ModuleSamples read_module_samples(const std::filesystem::path& file,
                                                const std::string& precision,
                                                const std::string& routing = "balanced");
// The routings of a table, in the order of their names.
[[nodiscard]] std::vector<std::string> read_routings(const std::filesystem::path& file);

struct GroupedFit {
  std::array<std::vector<std::int64_t>, 3> axes{};  // mean rows, experts, weights / 1024
  std::vector<double> log_factor{};
};

// The cost of a module beside its products: the constant part, and the share of permuting and
// activation that the kernels of the tables did not fuse; those that leave the least unexplained by
// one factor on the products.
[[nodiscard]] GroupedModel fit_module_rest(GpuProfile profile,
                                           const std::vector<ModuleSample>& samples);
// The factors of the products, that rest taken out. A module that one bad choice of
// kernels made slow pulls no harder than others (Huber's loss, 10 %).
[[nodiscard]] GroupedFit fit_grouped(const GpuProfile& profile,
                                     const std::vector<ModuleSample>& samples);
[[nodiscard]] GroupedTable table_of(DataType dtype, const GroupedFit& fit);
void add_series(ExpertTable& table, const std::vector<ModuleSample>& samples);

// Errors on modules that took no part: neither in the factors (fitted on balanced rows only) nor in
// the series.
struct ModuleErrors {
  Errors series;               // module_cost
  Errors model;                // without the series, as for a module nobody measured
  std::vector<double> ratios;  // predicted / measured of which `series` are the errors
};
[[nodiscard]] ModuleErrors held_out_modules(const GpuProfile& profile,
                                            const std::vector<ModuleSample>& samples,
                                            const HoldOut& hold_out);

}  // namespace trainyard::fit
