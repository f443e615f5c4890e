// Constants of the data files by name, and a data folder in which some of them have other values.
//
//    Constant c = read_constant("kernels/profiles/h100.json#/gemm/sustained_time/value");
//    DataOverlay data({{c, 1.05}});
//    validate(rows, {.data = data.folder()});    // as if the file had the value 1.05
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trainyard {

// A number in a data file, or a text that begins with one ("8.4 us").
struct Constant {
  // FILE#/JSON/POINTER, the file relative to the data folder; further constants follow after a +
  std::string name;
  std::string file;
  std::string pointer;
  double value = 0.0;
  std::string unit = {};  // text after the number, with its blank
  bool text = false;
  // Constants that keep their ratio to this one, because they have the same physical cause.
  std::vector<Constant> also = {};
};

// Throws InputError if there is no such file or field, or if it is not a positive number.
[[nodiscard]] Constant read_constant(const std::string& name);

struct Setting {
  Constant constant;
  double value = 0.0;
};

// The settings, each one followed by the constants that keep their ratio to it.
[[nodiscard]] std::vector<Setting> with_coupled_settings(const std::vector<Setting>& settings);

// The text of the data file with the settings applied. If the object that holds a constant has a
// "source", it becomes `source` (an empty `source` changes nothing). REQUIRES: all settings are in
// one file.
[[nodiscard]] std::string file_with(const std::vector<Setting>& settings,
                                    const std::string& source);

// A GPU that is priced by the measurements of another one, scaled by its data sheet.
struct PricedAs {
  std::string gpu;    // "h100"
  std::string other;  // "a100_80gb"
};

// A temporary folder with changed copies of the data files that the settings change, and with
// profiles of the GPUs, and of those derived from them, that have a data sheet and no measurements.
// Simulations read it before all others (TRAINYARD_DATA). The destructor removes it.
class DataOverlay {
 public:
  explicit DataOverlay(const std::vector<Setting>& settings,
                       const std::vector<PricedAs>& gpus = {});
  ~DataOverlay();
  DataOverlay(const DataOverlay&) = delete;
  DataOverlay& operator=(const DataOverlay&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace trainyard
