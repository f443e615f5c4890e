// A file in the making: it gets its name when it is whole, so that an interrupted run, or one that
// another run writes the same file beside, leaves the old file or a whole new one, never a part.
//
//   NewFile file("out/trace.json.gz");   // makes out/
//   file.write(bytes);                   // as often as needed
//   file.put_in_place();                 // without it nothing is left behind
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trainyard {

// Whether a file is what must never be replaced: a device, a pipe, or what standard output goes to
// (`--json /dev/stdout >> log`: the shell holds the log open). Nothing lies beside it either.
[[nodiscard]] bool is_written_as_it_stands(const std::filesystem::path& file);

// Makes the missing folders above a file. Throws InputError where one cannot be made.
void make_folder_of(const std::filesystem::path& file);

class NewFile {
 public:
  // Creates missing folders; of a symbolic link the file behind it is made. Throws InputError when
  // the place cannot be written.
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
  std::filesystem::path named_;   // what is in the making, where it has a name until then
  int descriptor_ = -1;
};

}  // namespace trainyard
