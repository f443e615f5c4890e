#include "scenarios/import/job_numbers.hpp"

#include <fmt/format.h>

#include <charconv>
#include <sstream>
#include <utility>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kValueMost = 80;  // letters of a value in a message

}  // namespace

void refuse_job(const std::string& file, std::string problem, std::string hint) {
  throw InputError(Problem{file, "", std::move(problem), std::move(hint)});
}

std::optional<std::int64_t> whole_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

bool only_shell_knows(std::string_view text) {
  return text.find_first_of("$`") != std::string_view::npos;
}

std::vector<std::string> fields_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::string option_place(const std::string& launcher, const LaunchOption& option,
                         std::size_t line) {
  const bool cut = option.value.size() > kValueMost;
  return fmt::format("{} {} {}{} (line {})", launcher, option.given,
                     option.value.substr(0, kValueMost), cut ? "..." : "", line);
}

std::optional<JobNumber> NumberReader::number(const std::string& launcher,
                                              const LaunchOption& option, std::string_view value,
                                              std::size_t line) {
  const std::string source = option_place(launcher, option, line);
  if (only_shell_knows(value)) {
    unknown_.push_back(source);
    return {};
  }
  const std::optional<std::int64_t> read = whole_of(value);
  if (!read || *read < 1 || *read > kJobNumberMost)
    refuse_job(
        file_,
        fmt::format("{}: \"{}\" is not a number of 1 or more", source, value.substr(0, kValueMost)),
        "write a whole number, or say what a variable is with --define NAME=VALUE");
  return JobNumber{*read, source};
}

void JobHosts::add(std::optional<std::int64_t> of_host) {
  each = count == 0 ? of_host : each == of_host ? each : std::nullopt;
  ++count;
  slots += of_host.value_or(0);
}

JobHosts hosts_of_list(const std::string& list) {
  JobHosts hosts;
  for (const std::string& host : fields_of(list, ',')) {
    const std::size_t colon = host.rfind(':');
    hosts.add(colon == std::string::npos ? std::nullopt : whole_of(host.substr(colon + 1)));
  }
  return hosts;
}

JobHosts hosts_of_file(const std::string& text) {
  JobHosts hosts;
  for (const std::string& line : fields_of(text, '\n')) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    if (!(words >> host)) continue;
    std::optional<std::int64_t> slots;
    if (const std::size_t colon = host.rfind(':'); colon != std::string::npos)
      slots = whole_of(host.substr(colon + 1));
    for (std::string word; words >> word;)
      if (word.starts_with("slots=")) slots = whole_of(word.substr(6));
    hosts.add(slots);
  }
  return hosts;
}

}  // namespace trainyard
