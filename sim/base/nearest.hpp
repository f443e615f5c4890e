// "Did you mean": the known word nearest to the one that was written.
//
//   nearest("tensr", {"tensor", "pipeline"});   // "tensor"
//   nearest("banana", {"tensor"});              // ""
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// The word in small letters, with '_' for '-'.
[[nodiscard]] std::string plain_word(std::string_view word);

// The candidate nearest to the word, or "" when none is near (edit distance at most a third of its
// length; capitals, '-' and '_' do not count). The first of equally near ones.
[[nodiscard]] std::string nearest(std::string_view word,
                                  const std::vector<std::string>& candidates);

// "did you mean "tensor"?" or, when nothing is near, "known: a, b, c"; empty when nothing is known.
[[nodiscard]] std::string suggestion(std::string_view word,
                                     const std::vector<std::string>& candidates);

}  // namespace trainyard
