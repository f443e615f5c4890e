// What a data file says, read once in a process for all who ask again.
//
//   const Json& lists = read_once<Json>(data_file(folder, "topology"), parse);
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <tuple>

namespace trainyard {

// `read(file)`, where the file was not read before in the state it has, with the same Value and
// Read. What it throws is thrown, and the next to ask reads again. Any thread may ask, but `read`
// not for the same Value and Read. Processes forked later know what was read before.
template <class Value, class Read>
[[nodiscard]] const Value& read_once(const std::filesystem::path& file, const Read& read) {
  // Dates of files go in steps of milliseconds: one that was written twice meanwhile differs in
  // size.
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

}  // namespace trainyard
