// Fits the factors of grouped products to measured modules of experts, and judges them on modules
// they have not seen.
//
// A row of the tables times one rank's whole module without communication: rows put in the order of
// experts, up product, activation, down product, rows added up again. The parts that are no
// products are taken from the memory model; what is left decides the factors of the two products
// together.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/fit/errors.hpp"
#include "kernels/grouped_gemm.hpp"
#include "kernels/memory_bound.hpp"

namespace trainyard::fit {

struct ModuleSample {
  std::int64_t rows = 0;  // of all local experts
  std::int64_t experts = 0;
  std::int64_t hidden = 0;
  std::int64_t inner = 0;  // of one expert on this rank
  bool gated = true;
  double seconds = 0.0;
};

struct ModuleSamples {
  std::vector<ModuleSample> medians;
  std::size_t rows = 0;
};

// Balanced rows that are not suspect, of one precision; equal shapes become their median.
[[nodiscard]] ModuleSamples read_module_samples(const std::filesystem::path& file,
                                                const std::string& dtype);

struct GroupedFit {
  std::array<std::vector<std::int64_t>, 3> axes{};  // mean rows, experts, weights / 1024
  std::vector<double> log_factor{};
};

// What the models are made of, without the factors.
struct GroupedBase {
  GpuSheet sheet;
  TileModel tile;
  MemoryModel memory;
  DataType dtype = DataType::Bf16;
};

[[nodiscard]] GroupedFit fit_grouped(const GroupedBase& base,
                                     const std::vector<ModuleSample>& samples);
[[nodiscard]] GroupedTable table_of(DataType dtype, const GroupedFit& fit);
// The whole module, at the tables' burst clock.
[[nodiscard]] Seconds module_time(const GroupedBase& base, const GroupedTable& table,
                                  const ModuleSample& sample);
[[nodiscard]] Errors held_out_grouped(const GroupedBase& base,
                                      const std::vector<ModuleSample>& samples,
                                      const HoldOut& hold_out);

}  // namespace trainyard::fit
