#include "scenarios/batch/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/new_file.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::filesystem::path& file, std::string problem, std::string hint) {
  throw InputError(Problem{.file = file.string(),
                           .pointer = {},
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

void write_whole(int descriptor, const std::string& text, const std::filesystem::path& file) {
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const std::string reason = std::strerror(errno);
  // A pipe or a terminal cannot be synchronised, and keeps nothing that could be lost.
  const bool kept = ::fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS;
  const bool fine = written == static_cast<ssize_t>(text.size()) && kept;
  ::close(descriptor);
  if (!fine) refuse(file, "cannot be written: " + reason, "free some space and start again");
}

}  // namespace

Journal::Journal(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty()) return;
  if (is_written_as_it_stands(file_)) return;  // it has no rows to go on from
  if (std::filesystem::exists(file_)) {
    read(read_file(file_));
  } else {
    write_file(file_, "");
  }
}

void Journal::read(const std::string& text) {
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // cut short: that run is done again
    Json row = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                           text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (!row.is_object() || !row.contains("key") || !row["key"].is_string())
      refuse(file_, fmt::format("line {} is no row of a batch", number),
             "name another file, or remove the line");
    keep(std::move(row));
    begin = end + 1;
  }
  if (begin < text.size()) write_file(file_, std::string_view(text).substr(0, begin));
}

void Journal::keep(Json row) {
  const bool fresh = keys_.insert(row.at("key").get<std::string>()).second;
  if (fresh) rows_.push_back(std::move(row));  // shards that overlap say the same twice
}

void Journal::append(const Json& row) {
  TY_CHECK(!has(row.at("key").get<std::string>()), row.at("key").get<std::string>());
  if (!file_.empty()) {
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0)
      refuse(file_, fmt::format("cannot be opened: {}", std::strerror(errno)),
             "name a file in a folder you may write to");
    write_whole(descriptor, row.dump() + "\n", file_);
  }
  keep(row);
}

}  // namespace trainyard
