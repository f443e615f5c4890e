#include "sim/base/nearest.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace trainyard {

namespace {

// The number of edits between two words. An edit inserts, deletes or replaces a letter, or swaps
// two neighbours (optimal string alignment). It stores only the last three rows of the usual
// dynamic-programming table.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = last[j] + (a[i] == b[j] ? 0 : 1);
      row[j + 1] = std::min({replaced, row[j] + 1, last[j + 1] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last.back();
}

// The candidates that have the word as one of their parts: "h100" is a part of "dgx_h100".
std::vector<std::string> names_with_part(std::string_view word,
                                         const std::vector<std::string>& candidates) {
  const std::string wanted = "_" + normalised_word(word) + "_";
  std::vector<std::string> found;
  for (const std::string& candidate : candidates)
    if (("_" + normalised_word(candidate) + "_").find(wanted) != std::string::npos)
      found.push_back("\"" + candidate + "\"");
  return found;
}

}  // namespace

std::string normalised_word(std::string_view word) {
  std::string text;
  for (const char letter : word) {
    const bool upper = letter >= 'A' && letter <= 'Z';
    text += letter == '-' ? '_' : upper ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return text;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  // A longer word resembles no known name, and the cost is the product of the lengths.
  if (word.size() > 200) return "";
  const std::string wanted = normalised_word(word);
  std::string best;
  std::size_t best_distance = word.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(wanted, normalised_word(candidate));
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  if (!near.empty()) return fmt::format("did you mean \"{}\"?", near);
  const std::vector<std::string> longer = names_with_part(word, candidates);
  if (!longer.empty()) return fmt::format("did you mean {}?", fmt::join(longer, " or "));
  if (candidates.empty()) return "";
  return fmt::format("known: {}", fmt::join(candidates, ", "));
}

}  // namespace trainyard
