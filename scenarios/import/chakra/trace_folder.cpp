#include "scenarios/import/chakra/trace_folder.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard::chakra {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& folder, std::string problem, std::string hint) {
  throw InputError(Problem{folder.string(), "", std::move(problem), std::move(hint)});
}

// 12 of "step.12.et" and "step.12.et.gz"; nothing for other names.
std::optional<std::size_t> rank_of(const fs::path& file) {
  fs::path name = file.filename();
  if (name.extension() == ".gz") name = name.stem();
  if (name.extension() != ".et") return {};
  const std::string digits = name.stem().extension().string();
  if (digits.size() < 2) return {};
  std::size_t rank = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data() + 1, end, rank);
  if (read.ec != std::errc{} || read.ptr != end) return {};
  return rank;
}

std::map<std::size_t, fs::path> files_by_rank(const fs::path& folder) {
  std::map<std::size_t, fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto rank = rank_of(entry.path());
    if (!rank) continue;
    const auto [first, fresh] = files.try_emplace(*rank, entry.path());
    if (!fresh) {
      fail(folder, fmt::format("holds two traces of rank {}", *rank),
           "keep one step in a folder: FOLDER/NAME.RANK.et");
    }
  }
  return files;
}

}  // namespace

std::vector<std::string> TraceFolder::streams() const {
  for (const RankFile& rank : ranks) {
    const auto found = rank.trace.attributes.find("streams");
    if (found == rank.trace.attributes.end()) continue;
    if (const auto* names = std::get_if<std::vector<std::string>>(&found->second)) return *names;
  }
  return {};
}

TraceFolder read_trace_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    fail(folder, "is no folder", "name the folder of NAME.RANK.et");
  const std::map<std::size_t, fs::path> files = files_by_rank(folder);
  if (files.empty()) fail(folder, "holds no trace", "Chakra traces are named NAME.RANK.et");
  TraceFolder traces{.path = folder, .ranks = {}};
  for (const auto& [rank, file] : files) {
    if (rank != traces.ranks.size()) {
      fail(folder,
           fmt::format("holds no trace of rank {}, but one of rank {}", traces.ranks.size(), rank),
           "ranks count from 0, and every one takes part");
    }
    traces.ranks.push_back(
        {.file = file.string(), .trace = from_bytes(read_file(file), file.string())});
  }
  return traces;
}

}  // namespace trainyard::chakra
