// "Did you mean": the known word that is nearest to a given word.
//
//    nearest("tensr", {"tensor", "pipeline"});   // "tensor"
//    nearest("banana", {"tensor"});              // ""
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// Returns the word in lower case, with '_' for '-'.
[[nodiscard]] std::string normalised_word(std::string_view word);

// Returns the candidate nearest to the word, or "" if none is near (edit distance of at most a
// third of its length; case, '-' and '_' do not count). Among equally near candidates it returns
// the first.
[[nodiscard]] std::string nearest(std::string_view word,
                                  const std::vector<std::string>& candidates);

// Returns "did you mean "tensor"?"; where none is near, the names with the word as a part between
// '_' or '-' ("h100": did you mean "dgx_h100"?), or "known: a, b, c"; empty without candidates.
[[nodiscard]] std::string suggestion(std::string_view word,
                                     const std::vector<std::string>& candidates);

}  // namespace trainyard
