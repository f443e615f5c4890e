#include "sim/base/new_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

constexpr mode_t kMode = 0666;  // less what the user's umask takes away

[[noreturn]] void refuse(const fs::path& file, std::string problem, std::string hint) {
  throw InputError(Problem{file.string(), "", std::move(problem), std::move(hint)});
}

// A rename would replace a symbolic link by a file, so the file it points to is what is written,
// even one that is yet to be made.
fs::path behind_links(fs::path file) {
  constexpr int kMostLinks = 40;  // as Linux follows them
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(file, error); ++i) {
    file = file.parent_path() / fs::read_symlink(file, error);
  }
  if (fs::is_symlink(file, error))
    refuse(file, std::strerror(ELOOP), "write to another name, or remove the links");
  return file;
}

bool is_standard_output(const fs::path& file) {
  struct stat named {};
  struct stat open {};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(STDOUT_FILENO, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

std::string open_file(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

// A name that no other run takes meanwhile, not one with the same number in another container.
fs::path name_until_whole(const fs::path& target) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return fmt::format("{}.{}.{:x}.partial", target.string(), getpid(), now);
}

}  // namespace

void make_folder_of(const fs::path& file) {
  if (!file.has_parent_path()) return;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    refuse(file, fmt::format("its folder cannot be made: {}", error.message()),
           "write into another one");
  }
}

bool is_written_as_it_stands(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  return fs::is_other(status) || is_standard_output(file);
}

NewFile::NewFile(fs::path file) : file_(std::move(file)) {
  make_folder_of(file_);
  std::error_code error;
  if (fs::is_directory(file_, error)) refuse(file_, "is a folder", "name a file in it");
  if (is_standard_output(file_)) {
    std::fflush(stdout);
    descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  } else if (is_written_as_it_stands(file_)) {
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

// A file without a name goes with the process, however that ends. It gets its name by way of
// /proc (open(2), O_TMPFILE), so where that is not mounted there is none.
void NewFile::open_unnamed() {
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  descriptor_ = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (descriptor_ >= 0 && ::access(open_file(descriptor_).c_str(), F_OK) != 0)
    ::close(std::exchange(descriptor_, -1));
}

// Not every file system has files without names.
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
    // The name in between is there for a moment: a link cannot take the place of a file.
    named_ = name_until_whole(target_);
    if (::linkat(AT_FDCWD, open_file(descriptor_).c_str(), AT_FDCWD, named_.c_str(),
                 AT_SYMLINK_FOLLOW) != 0) {
      const int error = errno;
      named_.clear();
      fail(error);
    }
  }
  // On disk before it takes the place of the old file, or a power failure would leave neither. A
  // pipe or a terminal cannot be synchronised.
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail(errno);
  // What a network's file system could not keep shows when the file is closed.
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
