// A folder of Chakra traces, one file per rank, and an order in which the nodes of a trace can be
// issued.
//
//    const TraceFolder folder = read_trace_folder("et");    // et/step.0.et, et/step.1.et.gz
//    const auto& [file, trace] = folder.ranks[1];
//    for (const Issued& one : issue_order(trace, is_replayed, file)) issue(*one.node, one.after);
#pragma once

#include <filesystem>
#include <functional>
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

  // Returns the names of the streams as the traces list them, the compute stream first; empty for
  // traces of other tools.
  [[nodiscard]] std::vector<std::string> streams() const;
};

// Throws InputError for a folder without traces, for two traces of one rank, and for missing ranks.
[[nodiscard]] TraceFolder read_trace_folder(const std::filesystem::path& folder);

// A node at its position in an order in which the nodes of a trace can be issued.
struct Issued {
  const Node* node = nullptr;
  std::vector<std::size_t> after;  // positions in the order, sorted, all before this one
};

// Returns every replayed node after all its dependencies; among ready nodes, the lowest id comes
// first. A dependency on a node that is not replayed is replaced by the dependencies of that node.
// Throws InputError for a duplicate id, an unknown dependency, and a cycle, which it names.
[[nodiscard]] std::vector<Issued> issue_order(const RankTrace& trace,
                                              const std::function<bool(const Node&)>& is_replayed,
                                              const std::string& file);

}  // namespace trainyard::chakra
