// The numbers that a launch script states, each with the place where it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/launch_script.hpp"

namespace trainyard {

struct JobNumber {
  std::int64_t value = 0;
  std::string source = {};  // the option as it is written, and its line
};

// The most nodes or processes that a script may state.
constexpr std::int64_t kJobNumberMost = 10'000'000;

// Throws InputError.
[[noreturn]] void refuse_job(const std::string& file, std::string problem, std::string hint);

// Returns a number that is the whole text; nothing for other text.
[[nodiscard]] std::optional<std::int64_t> whole_of(std::string_view text);

// Whether a variable or a command is left in the text.
[[nodiscard]] bool only_shell_knows(std::string_view text);

[[nodiscard]] std::vector<std::string> fields_of(const std::string& text, char separator);

// "torchrun --nnodes 4 (line 12)"; a long value is cut.
[[nodiscard]] std::string option_place(const std::string& launcher, const LaunchOption& option,
                                       std::size_t line);

// Reads numbers of options, and collects the options whose value only the shell knows.
class NumberReader {
 public:
  // REQUIRES: `file`, the name for messages, outlives the reader.
  explicit NumberReader(const std::string& file) : file_(file) {}

  // Returns nothing where only the shell knows the number. Throws InputError for text that is no
  // whole number from 1 to kJobNumberMost.
  std::optional<JobNumber> number(const std::string& launcher, const LaunchOption& option,
                                  std::string_view value, std::size_t line);

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  const std::string& file_;
  std::vector<std::string> unknown_;
};

// A list of hosts with their slots: "a:8,b:8" of mpirun, or the lines of a hostfile ("a slots=8",
// "a:8", "a"). No slots: the list does not say.
struct JobHosts {
  std::int64_t count = 0;
  std::int64_t slots = 0;                 // of all hosts together
  std::optional<std::int64_t> each = {};  // where all have the same number
  void add(std::optional<std::int64_t> of_host);
};
[[nodiscard]] JobHosts hosts_of_list(const std::string& list);
[[nodiscard]] JobHosts hosts_of_file(const std::string& text);

}  // namespace trainyard
