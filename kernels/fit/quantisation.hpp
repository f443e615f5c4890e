// What an fp8 row of the tables times besides its product: making x[m, k] fp8, by the same backend.
//
//   const auto found = quantisations(table);            // by backend
//   row_seconds - found.at("sglang").seconds(m, k);      // the product alone
//
// Quantising does not depend on n. At one m and k, the line through a backend's times over n meets
// n = 0 where everything but the product's own work is left; fp8's line meets it higher than bf16's
// by the quantisation. Over (m, k) the difference is a constant and a time per element of x: on the
// H100 2.7 us and 1.62 ps (sglang), 9.9 us and 2.35 ps (trtllm), which at 3.35 TB/s are 5.4 and 7.9
// bytes: x read twice, for its largest value and to be divided by it, and written once. A training
// step names these casts as kernels of their own, so a product must not hold them too.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "kernels/fit/samples.hpp"

namespace trainyard::fit {

// Each backend's quantisation, where it has fp8 and bf16 rows at enough (m, k). Rows of the shapes
// in `left_out` are not read.
[[nodiscard]] Quantisations quantisations(
    const CsvTable& table, const std::set<std::array<std::int64_t, 3>>& left_out = {});

// The quantisations recorded when the GPU's profile was fitted
// (gemm/provenance/fp8/quantisation_taken_out of kernels/profiles/<gpu>.json); empty where there
// are none. Throws InputError.
[[nodiscard]] Quantisations recorded_quantisations(const std::string& profile);
[[nodiscard]] nlohmann::ordered_json to_json(const Quantisations& found);

}  // namespace trainyard::fit
