#include "sim/base/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& file, std::string problem, std::string hint = "") {
  throw InputError(Problem{file.string(), "", std::move(problem), std::move(hint)});
}

constexpr int kGzipWindow =
    15 + 16;  // the largest window, in a gzip wrapper (zlib.h, deflateInit2)
constexpr std::size_t kChunk = std::size_t{1} << 16;
// Size limits of a file: on disk, and of a source of unknown size (gzip, /dev/zero).
constexpr std::size_t kMostBytes = std::size_t{2} << 30;
constexpr std::size_t kMostUntold = std::size_t{1} << 30;

bool is_gzip_name(const fs::path& file) { return file.extension() == ".gz"; }

// zlib counts in 32 bits, so it takes large inputs in pieces.
void feed(z_stream& stream, std::string_view& rest) {
  const std::size_t piece = std::min<std::size_t>(rest.size(), std::numeric_limits<uInt>::max());
  // zlib's interface lacks a const; it does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest.data()));
  stream.avail_in = static_cast<uInt>(piece);
  rest.remove_prefix(piece);
}

[[noreturn]] void refuse_size(const fs::path& file, std::size_t most) {
  refuse(file, fmt::format("holds more than {} GiB", most >> 30U), "give a smaller file");
}

// Runs the stream until it has no more output for its input, or has produced more than `most`
// bytes.
template <class Step>
int drain(z_stream& stream, std::string& output, std::size_t most, Step step) {
  char buffer[kChunk];
  int result = Z_OK;
  do {
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = kChunk;
    result = step(stream);
    output.append(buffer, kChunk - stream.avail_out);
  } while (result == Z_OK && stream.avail_out == 0 && output.size() <= most);
  return result;
}

std::string compress(std::string_view contents) {
  z_stream stream{};  // without a header of our own, zlib writes time stamp 0
  const int ready =
      deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY);
  TY_CHECK(ready == Z_OK, ready);
  std::string output;
  do {
    feed(stream, contents);
    const int flush = contents.empty() ? Z_FINISH : Z_NO_FLUSH;
    drain(stream, output, std::string::npos, [flush](z_stream& s) { return deflate(&s, flush); });
  } while (!contents.empty());
  deflateEnd(&stream);
  return output;
}

// A .gz file may consist of several members, one after the other; the contents are concatenated.
// The output has a limit, because a small file can hold gigabytes of zeros.
std::string decompress(const fs::path& file, std::string_view contents) {
  z_stream stream{};
  TY_CHECK(inflateInit2(&stream, kGzipWindow) == Z_OK);
  std::string output;
  int result = Z_OK;
  while (result == Z_OK || (result == Z_STREAM_END && stream.avail_in + contents.size() > 0)) {
    if (result == Z_STREAM_END) inflateReset(&stream);
    if (stream.avail_in == 0) {
      if (contents.empty()) break;
      feed(stream, contents);
    }
    result =
        drain(stream, output, kMostUntold, [](z_stream& s) { return inflate(&s, Z_NO_FLUSH); });
    if (result == Z_BUF_ERROR) result = Z_OK;  // not an error: it needs more input
    if (output.size() > kMostUntold) break;
  }
  inflateEnd(&stream);
  if (output.size() > kMostUntold) refuse_size(file, kMostUntold);
  if (result != Z_STREAM_END) refuse(file, "is not a whole gzip file", "compress it again");
  return output;
}

// The folders to which reading is confined; nothing: it is not confined.
std::optional<std::vector<fs::path>>& confinement() {
  static std::optional<std::vector<fs::path>> folders;
  return folders;
}

constexpr mode_t kMode = 0666;  // minus the user's umask

// Follows symbolic links. A rename would replace a link by a file, so the target is the file to
// write, even if it does not exist yet.
fs::path behind_links(fs::path file) {
  constexpr int kMostLinks = 40;  // the limit of Linux
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(file, error); ++i) {
    file = file.parent_path() / fs::read_symlink(file, error);
  }
  if (fs::is_symlink(file, error))
    refuse(file, std::strerror(ELOOP), "write to another name, or remove the links");
  return file;
}

// Whether standard output leads to this file. Paths do not tell, as /dev/stdout may lead anywhere,
// so devices and inodes are compared.
bool is_standard_output(const fs::path& file) {
  struct stat named {};
  struct stat open {};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

std::string open_file(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

// Returns a temporary name that no other run uses. The time distinguishes runs with equal process
// ids in different containers.
fs::path name_until_whole(const fs::path& target) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return fmt::format("{}.{}.{:x}.partial", target.string(), getpid(), now);
}

// The state of a process: functions that read files are called from everywhere.
std::function<void(const fs::path&)>& read_watcher() {
  static std::function<void(const fs::path&)> watcher;
  return watcher;
}

}  // namespace

void confine_reading(const std::vector<fs::path>& folders) {
  std::vector<fs::path> resolved;
  for (const fs::path& folder : folders) {
    std::error_code error;
    resolved.push_back(fs::canonical(folder, error));
    if (error) throw RunError(fmt::format("{}: {}", folder.string(), error.message()));
  }
  confinement() = std::move(resolved);
}

void refuse_confined(const fs::path& file) {
  if (!confinement()) return;
  std::error_code error;
  const fs::path place = fs::weakly_canonical(file, error);
  const auto holds = [&place](const fs::path& folder) {
    return std::mismatch(folder.begin(), folder.end(), place.begin(), place.end()).first ==
           folder.end();
  };
  if (error || std::ranges::none_of(*confinement(), holds))
    refuse(file, "lies outside the data folders, and only those are read here",
           "send the contents in place of the file's name");
}

void watch_reads(std::function<void(const fs::path&)> watcher) {
  read_watcher() = std::move(watcher);
}

void note_read(const fs::path& file) {
  if (read_watcher()) read_watcher()(file);
}

FileVersion file_version(const fs::path& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0)
    throw fs::filesystem_error("cannot be read", file, {errno, std::generic_category()});
  return {file, fs::last_write_time(file), static_cast<std::uintmax_t>(status.st_size),
          status.st_ino};
}

// The checks come in this order so that each error names its cause: a file that must not be read,
// one that cannot be looked up, one that does not exist, a folder. A pipe or a device does not tell
// its size and has the lower limit.
std::string read_file(const fs::path& file) {
  refuse_confined(file);
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    refuse(file, fmt::format("cannot be read: {}", error.message()));
  if (!fs::exists(status)) refuse(file, "no such file");
  if (fs::is_directory(status)) refuse(file, "is a folder", "name a file in it");
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  note_read(file);
  const bool told = fs::is_regular_file(status);
  const std::size_t most = told ? kMostBytes : kMostUntold;
  std::string contents;
  if (const auto size = fs::file_size(file, error); told && !error)
    contents.reserve(std::min(size, most));
  char buffer[kChunk];
  while (in.read(buffer, kChunk) || in.gcount() > 0) {
    contents.append(buffer, static_cast<std::size_t>(in.gcount()));
    if (contents.size() > most) refuse_size(file, most);
  }
  if (in.bad()) refuse(file, "cannot be read to its end");
  return is_gzip_name(file) ? decompress(file, contents) : contents;
}

void write_file(const fs::path& file, std::string_view contents) {
  NewFile made(file);
  made.write(is_gzip_name(file) ? std::string_view(compress(contents)) : contents);
  made.put_in_place();
}

void make_folder_of(const fs::path& file) {
  if (!file.has_parent_path()) return;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    refuse(file, fmt::format("its folder cannot be made: {}", error.message()),
           "write into another one");
  }
}

bool is_irreplaceable(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  return fs::is_other(status) || is_standard_output(file);
}

// Three kinds of files: standard output under any name, whose open descriptor is used; other
// devices and pipes, which are written in place; and ordinary files, which get their name when they
// are complete.
NewFile::NewFile(fs::path file) : file_(std::move(file)) {
  make_folder_of(file_);
  std::error_code error;
  if (fs::is_directory(file_, error)) refuse(file_, "is a folder", "name a file in it");
  if (is_standard_output(file_)) {
    std::fflush(stdout);
    descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  } else if (is_irreplaceable(file_)) {
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    target_ = behind_links(file_);
    open_unnamed();
    if (descriptor_ < 0) open_named();
  }
  if (descriptor_ < 0) fail(errno);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!named_.empty()) ::unlink(named_.c_str());
}

// An unnamed file vanishes with the process, however that ends. It gets its name through /proc
// (open(2), O_TMPFILE), so it cannot be used if /proc is not mounted.
void NewFile::open_unnamed() {
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (descriptor_ >= 0 && ::access(open_file(descriptor_).c_str(), F_OK) != 0)
    ::close(std::exchange(descriptor_, -1));
}

// The fallback for file systems without unnamed files.
void NewFile::open_named() {
  named_ = name_until_whole(target_);
  descriptor_ = ::open(named_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (descriptor_ < 0) named_.clear();
}

void NewFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void NewFile::put_in_place() {
  TY_CHECK(descriptor_ >= 0, file_.string());
  if (!target_.empty() && named_.empty()) {
    // linkat() cannot replace an existing file, so the file first gets a temporary name. The rename
    // below replaces the old file atomically.
    named_ = name_until_whole(target_);
    if (::linkat(AT_FDCWD, open_file(descriptor_).c_str(), AT_FDCWD, named_.c_str(),
                 AT_SYMLINK_FOLLOW) != 0) {
      const int error = errno;
      named_.clear();
      fail(error);
    }
  }
  // The contents must be on disk before the rename, or a power failure could lose both files. Pipes
  // and terminals do not support fsync.
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail(errno);
  // A network file system may report only on close that it could not store the bytes.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(errno);
  if (target_.empty()) return;
  if (::rename(named_.c_str(), target_.c_str()) != 0) fail(errno);
  named_.clear();
}

void NewFile::fail(int error) const {
  refuse(file_, fmt::format("cannot be written: {}", std::strerror(error)),
         "check the folder, its permissions and the free space");
}

}  // namespace trainyard
