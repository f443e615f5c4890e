// The two kinds of exceptions that the user sees.
//
// InputError: the input is wrong. It has one or more problems, each with file, JSON path,
// description (with the value) and remedy. `main` prints them all and exits with 2. RunError: the
// input is well-formed but the run cannot proceed (a deadlock, a step that does not fit, a limit
// exceeded). `main` prints it and exits with 1.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard {

struct Problem {
  std::string file;     // as the user named it; empty if the problem is not in a file
  std::string pointer;  // JSON pointer, "/parallelism/tensor"; empty for the whole file
  std::string problem;  // one sentence with the offending value
  std::string hint;     // the remedy, one sentence; may be empty
};

// Returns "file: /pointer: problem (hint)", the format of every input problem.
[[nodiscard]] std::string to_text(const Problem& problem);

class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Problem> problems);
  explicit InputError(Problem problem);

  [[nodiscard]] const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

struct RunError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The caller requested a stop before there was a result.
struct Cancelled : RunError {
  using RunError::RunError;
};

}  // namespace trainyard
