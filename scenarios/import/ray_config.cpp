#include "scenarios/import/ray_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>

#include "scenarios/import/launch_script.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

using Names = std::map<std::string, std::string>;

[[noreturn]] void refuse_config(const std::string& file, std::string problem, std::string hint) {
  throw InputError(Problem{file, "", std::move(problem), std::move(hint)});
}

std::string without_blanks(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

constexpr std::string_view kName = "ScalingConfig(";

// Returns the position of the last ScalingConfig that is not in a comment.
std::size_t config_at(const std::string& text) {
  std::size_t at = std::string::npos;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::size_t found = line.find(kName);
    if (found < line.find('#')) at = begin + found;
    begin = end + 1;
  }
  return at;
}

// Splits the arguments of a call at commas outside of nested parentheses.
class Arguments {
 public:
  // `text` begins at the opening parenthesis. Returns nothing where it does not end.
  static std::optional<Names> read(std::string_view text) {
    Arguments arguments;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '#') {
        i = std::min(text.find('\n', i), text.size() - 1);
      } else if (arguments.step(text[i])) {
        return std::move(arguments.all_);
      }
    }
    return {};
  }

 private:
  // Returns whether the letter ends the call.
  bool step(char letter) {
    // Only depth 1 belongs to the call. Commas and '=' below it are parts of a value, as in
    // resources_per_worker=dict(GPU=2, CPU=8).
    constexpr std::string_view kOpening = "([{";
    constexpr std::string_view kClosing = ")]}";
    if (kOpening.find(letter) != std::string_view::npos && ++depth_ == 1) return false;
    if (kClosing.find(letter) != std::string_view::npos && --depth_ == 0) {
      end_argument();
      return true;
    }
    if (depth_ == 1 && letter == ',') {
      end_argument();
    } else if (depth_ == 1 && letter == '=' && name_.empty()) {
      name_ = std::exchange(value_, "");
    } else {
      value_ += letter;
    }
    return false;
  }

  void end_argument() {
    if (!name_.empty()) all_[without_blanks(name_)] = without_blanks(value_);
    name_.clear();
    value_.clear();
  }

  Names all_;
  std::string name_;
  std::string value_;
  int depth_ = 0;
};

// Names that a Python script sets to a value on one line: "NODES = 4", or "NODES: int = 4". The
// last assignment of a name holds; scopes of functions are not told apart.
Names python_names(const std::string& text) {
  Names names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0 || line.compare(equals, 2, "==") == 0) continue;
    const std::string value = line.substr(equals + 1);
    names[without_blanks(line.substr(0, line.find_first_of(":=")))] =
        without_blanks(value.substr(0, value.find('#')));
  }
  return names;
}

std::string without_quotes(const std::string& text) {
  const std::size_t begin = text.find_first_of("\"'");
  if (begin == std::string::npos) return text;
  return text.substr(begin + 1, text.find(text[begin], begin + 1) - begin - 1);
}

// Returns the GPUs of a worker: resources_per_worker={"GPU": 2}, else 1.
std::int64_t gpus_of_worker(const Names& arguments, const Names& names, const std::string& file,
                            std::size_t line) {
  const auto found = arguments.find("resources_per_worker");
  if (found == arguments.end()) return 1;
  const std::string& resources = found->second;
  const std::size_t key = std::min(resources.find("\"GPU\""), resources.find("'GPU'"));
  const std::size_t colon = key == std::string::npos ? key : resources.find(':', key);
  if (colon == std::string::npos) return 1;
  const std::string rest = resources.substr(colon + 1);
  const std::string value = without_blanks(rest.substr(0, rest.find_first_of(",}")));
  constexpr std::int64_t kGpusMost = 1024;
  const std::optional<std::int64_t> gpus = whole_value(value, names);
  if (!gpus || *gpus < 1 || *gpus > kGpusMost)
    refuse_config(file, fmt::format("a worker of line {} has \"{}\" GPUs", line, value),
                  "a worker has a whole number of GPUs here");
  return *gpus;
}

}  // namespace

std::optional<RayConfig> ray_config(const std::string& text, const std::string& file,
                                    const Names& defined) {
  const std::size_t at = config_at(text);
  if (at == std::string::npos) return {};
  const auto line = static_cast<std::size_t>(
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  const std::optional<Names> arguments =
      Arguments::read(std::string_view(text).substr(at + kName.size() - 1));
  if (!arguments)
    refuse_config(file, fmt::format("ScalingConfig in line {} has no end", line),
                  "give the whole Python script");
  Names names = python_names(text);
  for (const auto& [name, value] : defined) names[name] = value;
  const auto argument = [&](const char* name) {
    const auto found = arguments->find(name);
    return found == arguments->end() ? std::string() : found->second;
  };
  const std::string workers = arguments->contains("num_workers") ? argument("num_workers") : "1";
  RayConfig config{.source = fmt::format("ScalingConfig(num_workers={}) (line {})", workers, line),
                   .gpu = without_quotes(argument("accelerator_type"))};
  constexpr std::int64_t kWorkersMost = 10'000'000;
  const std::optional<std::int64_t> count = whole_value(workers, names);
  if (!count || *count < 1 || *count > kWorkersMost)
    refuse_config(file,
                  config.source + " is computed when the script runs, or no number of 1 or more",
                  fmt::format("say what it is: --define {}=16", workers.substr(0, 40)));
  if (argument("use_gpu") != "True")
    config.assumed.push_back(
        fmt::format("the workers of line {} use GPUs, though use_gpu is not True", line));
  const std::int64_t each = gpus_of_worker(*arguments, names, file, line);
  if (each > 1)
    config.assumed.push_back(
        fmt::format("each worker of line {} has {} GPUs, which run a process each", line, each));
  config.gpus = *count * each;
  return config;
}

}  // namespace trainyard
