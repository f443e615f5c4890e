// The nodes of one trace in an order in which they can be issued.
//
//   for (const Issued& one : issue_order(trace, is_replayed, file)) issue(*one.node, one.after);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/chakra/trace_file.hpp"

namespace trainyard::chakra {

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
