// How far the cost model is off on tables of measured kernels, GPU by GPU and kind by kind.
//
//   for (const Judgement& j : judge_profiles("measured/kernels")) ...   // the profiles as they are
//   judge_held_out("measured/kernels", {.share = 0.2, .seed = 1});      // on shapes left out
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/fit/samples.hpp"

namespace trainyard::fit {

struct Judgement {
  std::string gpu;        // the profile
  std::string what;       // "gemm bf16", "attention bf16", "experts bf16 balanced"
  std::size_t known = 0;  // shapes that the profile answered as measured; not among the errors
  Errors errors;          // of all other shapes; count 0: there were none
};

// Each shape of the tables (the median over its backends) as the profiles that are shipped answer
// it, at burst clock. Shapes that a profile holds as measured are counted apart: they say nothing
// about prediction. Throws InputError for a folder without tables.
[[nodiscard]] std::vector<Judgement> judge_profiles(const std::filesystem::path& measured);

// Fitted again without the drawn shapes, judged on these alone; the modules of experts of a GPU
// once more together.
[[nodiscard]] std::vector<Judgement> judge_held_out(const std::filesystem::path& measured,
                                                    const HoldOut& hold_out);

// A table for a terminal, or in Markdown.
[[nodiscard]] std::string judgement_text(const std::vector<Judgement>& judgements, bool markdown);

}  // namespace trainyard::fit
