#include "sim/base/error.hpp"

#include <fmt/format.h>

namespace trainyard {

namespace {

std::string join(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += to_text(problem);
  }
  return text;
}

}  // namespace

std::string to_text(const Problem& problem) {
  std::string place = problem.file;
  if (!problem.pointer.empty()) place += (place.empty() ? "" : ": ") + problem.pointer;
  return fmt::format("{}{}{}{}", place, place.empty() ? "" : ": ", problem.problem,
                     problem.hint.empty() ? "" : fmt::format(" ({})", problem.hint));
}

InputError::InputError(std::vector<Problem> problems)
    : std::runtime_error(join(problems)), problems_(std::move(problems)) {}

InputError::InputError(Problem problem) : InputError(std::vector{std::move(problem)}) {}

}  // namespace trainyard
