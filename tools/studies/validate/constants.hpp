// Constants of the data files by name, and a data folder in which some have other values.
//
//   Constant c = read_constant("kernels/profiles/h100.json#/gemm/sustained_time/value");
//   DataOverlay data({{c, 1.05}});
//   validate(rows, {.data = data.folder()});    // as if the file said 1.05
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trainyard {

// A number, or a text that begins with one ("8.4 us"), in a data file.
struct Constant {
  std::string name;  // FILE#/JSON/POINTER, the file below the data folder; more of them after a +
  std::string file;
  std::string pointer;
  double value = 0.0;
  std::string unit = {};  // what follows the number in a text, with its blank
  bool text = false;
  // The constant that keeps its ratio to this one, because one cause is behind both.
  std::vector<Constant> also = {};
};

// Throws InputError: no such file or place, no number, or one that is not positive.
[[nodiscard]] Constant read_constant(const std::string& name);

struct Setting {
  Constant constant;
  double value = 0.0;
};

// The settings, and after each one those that go along with it, in its ratio.
[[nodiscard]] std::vector<Setting> with_what_goes_along(const std::vector<Setting>& settings);

// The file's text with the settings that are in it; where the object that holds a constant has a
// "source", it becomes `source` (kept where that is empty). REQUIRES: all are of one file.
[[nodiscard]] std::string file_with(const std::vector<Setting>& settings,
                                    const std::string& source);

// A copy of the data folder, of links but for the changed files, that goes when the object goes.
class DataOverlay {
 public:
  explicit DataOverlay(const std::vector<Setting>& settings);
  ~DataOverlay();
  DataOverlay(const DataOverlay&) = delete;
  DataOverlay& operator=(const DataOverlay&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace trainyard
