// Files: reads a whole file, reads a file once per process, writes a whole file, or writes it in
// pieces. An interrupted run leaves the old file or none, never a partial one.
//
//    write_file("out/result.json.gz", read_file("result.json"));   // makes out/, and compresses
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/data_use.hpp"

namespace trainyard {

// From now on this process reads only files that lie in these folders, with all symbolic links
// resolved: a program that works for strangers calls it. Throws RunError if a folder does not
// exist. REQUIRES: no other thread reads yet.
void confine_reading(const std::vector<std::filesystem::path>& folders);
// Throws InputError for a file that confine_reading() excludes, whether it exists or not.
void refuse_confined(const std::filesystem::path& file);

// Throws InputError if the file cannot be read. Decompresses a file whose name ends in ".gz".
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

// Calls `watcher` with each file that this process reads from now on, once it is open: with every
// use of a file, by any thread. REQUIRES: no other thread runs yet.
void watch_reads(std::function<void(const std::filesystem::path&)> watcher);
// Tells the watcher of a file that is not read by read_file().
void note_read(const std::filesystem::path& file);

// Creates missing folders. Compresses if the name ends in ".gz" (without a time stamp, so that
// equal contents give equal bytes). Throws InputError if the file cannot be written.
void write_file(const std::filesystem::path& file, std::string_view contents);

// Two states of a file differ in this. The inode is a part of it, because file dates have a
// resolution of milliseconds, within which a file of the same size can take another's place.
struct FileVersion {
  std::filesystem::path file;
  std::filesystem::file_time_type written;
  std::uintmax_t bytes = 0;
  std::uintmax_t inode = 0;
  [[nodiscard]] auto operator<=>(const FileVersion&) const = default;
};
// Throws std::filesystem::filesystem_error if there is no such file.
[[nodiscard]] FileVersion file_version(const std::filesystem::path& file);

// Returns the value that `read` makes of a data file. The process computes it once and caches it:
//
//    const Json& lists = read_once<Json>(data_file("sim/nccl/data", "topology"), parse);
//
// Calls `read(file)` if there is no value for this Value, Read and version of the file. If `read`
// throws, nothing is cached and the next caller reads again. Thread-safe, but `read` itself must
// not call read_once with the same Value and Read. A child process that is forked later inherits
// the cache.
template <class Value, class Read>
[[nodiscard]] const Value& read_once(const std::filesystem::path& file, const Read& read) {
  struct Known {
    Value value;
    std::vector<OwnDataFile> files;  // of the user, that `read` opened
  };
  static std::mutex mutex;
  static std::map<FileVersion, Known> known;
  const std::scoped_lock lock(mutex);
  const FileVersion version = file_version(file);
  auto found = known.find(version);
  if (found != known.end()) {
    DataUse::note(found->second.files);
  } else {
    const DataUse use;
    Value value = read(file);
    found = known.emplace(version, Known{std::move(value), use.files()}).first;
  }
  return found->second.value;
}

// True for a file that must not be replaced: a device, a pipe, or the target of standard output
// (`--json /dev/stdout >> log`: the shell holds the log open). No temporary file is made next to it
// either.
[[nodiscard]] bool is_irreplaceable(const std::filesystem::path& file);

// Creates the missing parent folders of a file. Throws InputError if that fails.
void make_folder_of(const std::filesystem::path& file);

// A file that gets its name only when it is complete. An interrupted run, or another run that
// writes the same file concurrently, therefore leaves the old file or a complete new one, never a
// part.
//
//    NewFile file("out/trace.json.gz");   // makes out/
//    file.write(bytes);                   // as often as needed
//    file.put_in_place();                 // without it no file remains
class NewFile {
 public:
  // Creates missing folders. Follows a symbolic link and writes its target. Throws InputError if
  // the file cannot be written.
  explicit NewFile(std::filesystem::path file);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  NewFile(NewFile&&) = delete;
  NewFile& operator=(NewFile&&) = delete;

  // Throws InputError if the write fails.
  void write(std::string_view bytes);

  // For other writers, such as zlib's. The object still owns the descriptor.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  // Gives the file its name. Throws InputError if that fails. REQUIRES: not called before.
  void put_in_place();

  // Throws InputError with the file and the message of errno `error`.
  [[noreturn]] void fail(int error) const;

 private:
  void open_unnamed();
  void open_named();

  std::filesystem::path file_;  // as given by the caller
  // The target of links; empty for a file that is_irreplaceable().
  std::filesystem::path target_;
  std::filesystem::path named_;  // the temporary file; empty while it has no name
  int descriptor_ = -1;
};

}  // namespace trainyard
