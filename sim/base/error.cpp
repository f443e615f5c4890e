#include "sim/base/error.hpp"

#include <fmt/format.h>

#include <utility>

#include "sim/base/utf8.hpp"

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

// Messages go to terminals and into results, which are JSON, while names and files may contain any
// bytes.
std::vector<Problem> readable(std::vector<Problem> problems) {
  for (Problem& problem : problems) {
    for (std::string* part : {&problem.file, &problem.pointer, &problem.problem, &problem.hint}) {
      *part = printable(*part);
    }
  }
  return problems;
}

}  // namespace

std::string to_text(const Problem& problem) {
  std::string place = problem.file;
  if (!problem.pointer.empty()) place += (place.empty() ? "" : ": ") + problem.pointer;
  return fmt::format("{}{}{}{}", place, place.empty() ? "" : ": ", problem.problem,
                     problem.hint.empty() ? "" : fmt::format(" ({})", problem.hint));
}

InputError::InputError(std::vector<Problem> problems)
    : std::runtime_error(join(readable(problems))), problems_(readable(std::move(problems))) {}

InputError::InputError(Problem problem) : InputError(std::vector{std::move(problem)}) {}

}  // namespace trainyard
