// A folder of Chakra traces, one file for each rank, and an order in which the nodes of each file
// can be issued.
//
//   const TraceFolder folder = read_trace_folder("et");    // et/step.0.et, et/step.1.et.gz
//   const auto& [file, trace] = folder.ranks[1];
//   for (const Issued& one : issue_order(trace, is_replayed, file)) issue(*one.node, one.after);
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

  // Names of the streams as the traces list them, the compute stream first; empty in traces of
  // others.
  [[nodiscard]] std::vector<std::string> streams() const;
};

// Throws InputError: no trace, two of one rank, a rank between others without one.
[[nodiscard]] TraceFolder read_trace_folder(const std::filesystem::path& folder);

// A node at its place in an order in which the nodes of a trace can be issued.
struct Issued {
  const Node* node = nullptr;
  std::vector<std::size_t> after;  // places in the order, sorted, each before this one
};

// Every node that is replayed, after all it waits for; among those free to go the lowest id. What
// waits for a node that is not replayed waits for what that one waits for. Throws InputError: an id
// twice, a dependency that is not there, a cycle, which is named.
[[nodiscard]] std::vector<Issued> issue_order(const RankTrace& trace,
                                              const std::function<bool(const Node&)>& is_replayed,
                                              const std::string& file);

}  // namespace trainyard::chakra
