// A folder of Chakra traces, one file for each rank.
//
//   const TraceFolder folder = read_trace_folder("et");    // et/step.0.et, et/step.1.et.gz
//   folder.ranks[1].trace.nodes.size();
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/chakra/trace_file.hpp"

namespace trainyard::chakra {

struct RankFile {
  std::string file;
  RankTrace trace;
};

struct TraceFolder {
  std::filesystem::path path;
  std::vector<RankFile> ranks;  // by rank

  // Names of the streams as the traces list them, the compute stream first; empty in traces of
  // others.
  [[nodiscard]] std::vector<std::string> streams() const;
};

// Throws InputError: no trace, two of one rank, a rank between others without one.
[[nodiscard]] TraceFolder read_trace_folder(const std::filesystem::path& folder);

}  // namespace trainyard::chakra
