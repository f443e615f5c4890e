#include "tools/studies/batch/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/report/result_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::filesystem::path& file, std::string problem, std::string hint) {
  throw InputError(Problem{.file = file.string(),
                           .pointer = {},
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

void write_whole(int descriptor, std::string_view text, const std::filesystem::path& file) {
  const auto fail = [&] {
    refuse(file, fmt::format("cannot be written: {}", std::strerror(errno)),
           "free some space and start again");
  };
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) fail();
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  // A pipe or a terminal cannot be synchronised, and stores nothing that could be lost.
  if (::fsync(descriptor) != 0 && errno != EINVAL && errno != EROFS) fail();
}

// Whether this process has the lock of the open file. The workers of a process that was killed a
// moment ago may still hold it for a short time, so the function tries for one second.
bool takes_lock(int descriptor) {
  using namespace std::chrono_literals;
  const auto end = std::chrono::steady_clock::now() + 1s;
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return true;  // the file system has no locks
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

// Whether the name of the file still belongs to the open descriptor. Another process may have
// replaced the file before this one got the lock.
bool is_still_the_file(int descriptor, const std::filesystem::path& file) {
  struct stat named {};
  struct stat open {};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

std::string fingerprint_of(const Json& row) {
  const auto found = row.find("fingerprint");
  return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Whether the end of a file is a row whose writing was cut short: every row begins with its key.
bool is_cut_short(std::string_view rest) {
  constexpr std::string_view kBegin = R"({"key":")";
  return rest.substr(0, kBegin.size()) == kBegin.substr(0, rest.size());
}

}  // namespace

Journal::Journal(std::filesystem::path file, std::string state)
    : file_(std::move(file)), state_(std::move(state)) {
  if (file_.empty()) return;
  open();
  try {
    // a device or a pipe has no rows yet
    if (!is_irreplaceable(file_)) read(read_file(file_));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Journal::open() {
  make_folder_of(file_);
  for (;;) {
    constexpr mode_t kMode = 0666;  // minus the bits of the user's umask
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, kMode);
    if (descriptor_ < 0)
      refuse(file_, fmt::format("cannot be opened: {}", std::strerror(errno)),
             "name a file in a folder you may write to");
    if (is_irreplaceable(file_)) return;
    const bool locked = takes_lock(descriptor_);
    if (locked && is_still_the_file(descriptor_, file_)) return;
    ::close(std::exchange(descriptor_, -1));
    if (!locked)
      refuse(file_, "is being written by another process",
             "wait for its end, or name another file (parts are put together with `cat`)");
  }
}

void Journal::read(const std::string& text) {
  std::size_t begin = 0;
  std::size_t number = 1;
  const auto refuse_line = [&] {
    refuse(file_, fmt::format("line {} is no row of a batch", number),
           "name another file, or remove the line");
  };
  for (; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    Json row = try_parse_json(std::string_view(text).substr(begin, end - begin)).value_or(Json());
    if (!row.is_object() || !row.contains("key") || !row["key"].is_string()) refuse_line();
    unchecked_.insert(row["key"].get<std::string>());
    keep(std::move(row));
    begin = end + 1;
  }
  if (begin == text.size()) return;
  // The run of a row that is cut short is done once more.
  if (!is_cut_short(std::string_view(text).substr(begin))) refuse_line();
  if (::ftruncate(descriptor_, static_cast<off_t>(begin)) != 0)
    refuse(file_, fmt::format("cannot be written: {}", std::strerror(errno)),
           "remove its last line, which is cut short");
}

void Journal::keep(Json row) {
  const bool fresh = keys_.insert(row.at("key").get<std::string>()).second;
  // concatenated shards that overlap contain the same row twice
  if (fresh) rows_.push_back(std::move(row));
}

std::size_t Journal::drop_outdated_rows(const std::map<std::string, std::string>& fingerprints) {
  for (const auto& [key, fingerprint] : fingerprints) unchecked_.erase(key);
  const std::size_t dropped = std::erase_if(rows_, [&](const Json& row) {
    const auto wanted = fingerprints.find(row.at("key").get<std::string>());
    return wanted != fingerprints.end() && fingerprint_of(row) != wanted->second;
  });
  if (dropped == 0) return 0;
  keys_.clear();
  for (const Json& row : rows_) keys_.insert(row.at("key").get<std::string>());
  if (!file_.empty() && !is_irreplaceable(file_)) rewrite();
  return dropped;
}

// Writes the remaining rows to a new file and renames it over the old one. The new file is locked
// before the rename, so no other process can open it in between.
void Journal::rewrite() {
  NewFile made(file_);
  // The rows are written as they were read. Some of them may come from older programs, and this one
  // does not check them.
  for (const Json& row : rows_) made.write(row.dump() + "\n");
  const int fresh = ::fcntl(made.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (fresh < 0) made.fail(errno);
  try {
    if (!takes_lock(fresh) || ::fcntl(fresh, F_SETFL, O_APPEND) != 0) made.fail(errno);
    made.put_in_place();
  } catch (...) {
    ::close(fresh);
    throw;
  }
  // only now: the old lock excludes other processes up to this point
  ::close(std::exchange(descriptor_, fresh));
}

void Journal::append(const Json& row) {
  TY_CHECK(!has(row.at("key").get<std::string>()), row.at("key").get<std::string>());
  const std::string line = to_line(row) + "\n";
  if (descriptor_ >= 0) write_whole(descriptor_, line, file_);
  keep(row);
}

}  // namespace trainyard
