// Files: read whole, read once in a process, written whole, or written piece by piece. An
// interrupted run leaves the old file or none, never half of one.
//
//   write_file("out/result.json.gz", read_file("result.json"));   // makes out/, and compresses
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

namespace trainyard {

// Throws InputError when the file cannot be read. Decompresses a name that ends in ".gz".
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

// Creates missing folders. Compresses when the name ends in ".gz" (with no time stamp inside, so
// equal contents give equal bytes). Throws InputError when the place cannot be written.
void write_file(const std::filesystem::path& file, std::string_view contents);

// The value that `read` makes of a data file, made once in a process for all who ask again:
//
//   const Json& lists = read_once<Json>(data_file(folder, "topology"), parse);
//
// Calls `read(file)` when this Value and Read were not asked for in the state that the file has
// now. When `read` throws, nothing is kept and the next caller reads again. Any thread may ask, but
// `read` itself must not ask for the same Value and Read. A process forked later keeps what was
// read.
template <class Value, class Read>
[[nodiscard]] const Value& read_once(const std::filesystem::path& file, const Read& read) {
  // The date of a file goes in steps of milliseconds, so its size is compared too.
  using Version =
      std::tuple<std::filesystem::path, std::filesystem::file_time_type, std::uintmax_t>;
  static std::mutex mutex;
  static std::map<Version, Value> known;
  const std::scoped_lock lock(mutex);
  std::error_code folder;  // which has no size
  const Version version{file, std::filesystem::last_write_time(file),
                        std::filesystem::file_size(file, folder)};
  const auto found = known.find(version);
  return found != known.end() ? found->second : known.emplace(version, read(file)).first->second;
}

// Whether a file is what must never be replaced: a device, a pipe, or what standard output goes to
// (`--json /dev/stdout >> log`: the shell holds the log open). Nothing lies beside it either.
[[nodiscard]] bool is_written_as_it_stands(const std::filesystem::path& file);

// Makes the missing folders above a file. Throws InputError where one cannot be made.
void make_folder_of(const std::filesystem::path& file);

// A file in the making: it gets its name when it is whole, so that an interrupted run, or one that
// another run writes the same file beside, leaves the old file or a whole new one, never a part.
//
//   NewFile file("out/trace.json.gz");   // makes out/
//   file.write(bytes);                   // as often as needed
//   file.put_in_place();                 // without it nothing is left behind
class NewFile {
 public:
  // Creates missing folders. A symbolic link is followed: the file behind it is written. Throws
  // InputError when the place cannot be written.
  explicit NewFile(std::filesystem::path file);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  NewFile(NewFile&&) = delete;
  NewFile& operator=(NewFile&&) = delete;

  // Throws InputError when the place takes no more.
  void write(std::string_view bytes);

  // For writers of others, such as zlib's; it stays the file's own.
  [[nodiscard]] int descriptor() const { return descriptor_; }

  // Throws InputError when it cannot. REQUIRES: not yet called.
  void put_in_place();

  // Throws InputError that names the file and what errno `error` stands for.
  [[noreturn]] void fail(int error) const;

 private:
  void open_unnamed();
  void open_named();

  std::filesystem::path file_;    // as asked for
  std::filesystem::path target_;  // behind links; empty where it is written to as it stands
  std::filesystem::path named_;   // the file in the making; empty where it has no name until then
  int descriptor_ = -1;
};

}  // namespace trainyard
