// Errors of the cost model on tables of measured kernels, by GPU and by kind of kernel.
//
//    judgement_text(judge_profiles("measured/kernels"), false);       // the profiles as they are
//    judge_held_out("measured/kernels", {.share = 0.2, .seed = 1});   // on shapes left out
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/fit/samples.hpp"

namespace trainyard::fit {

struct Judgement {
  std::string gpu;        // name of the profile
  std::string what;       // "gemm bf16", "attention bf16", "experts bf16 balanced"
  std::size_t known = 0;  // shapes for which the profile has a measurement; not part of the errors
  Errors errors;          // of all other shapes; count 0 if there are none
};

// Compares each shape of the tables (the median over its backends) with the time from the shipped
// profiles, at burst clock. Shapes that a profile contains as measured are counted separately,
// because they do not test the prediction. Throws InputError for a folder without tables.
[[nodiscard]] std::vector<Judgement> judge_profiles(const std::filesystem::path& measured);

// Fits again without the drawn shapes and evaluates only these. The expert modules of a GPU are
// also evaluated together.
[[nodiscard]] std::vector<Judgement> judge_held_out(const std::filesystem::path& measured,
                                                    const HoldOut& hold_out);

// The table as text for a terminal, or in Markdown.
[[nodiscard]] std::string judgement_text(const std::vector<Judgement>& judgements, bool markdown);

}  // namespace trainyard::fit
