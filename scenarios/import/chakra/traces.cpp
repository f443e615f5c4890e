#include "scenarios/import/chakra/traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <queue>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard::chakra {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& folder, std::string problem, std::string hint) {
  throw InputError(Problem{folder.string(), "", std::move(problem), std::move(hint)});
}

// Returns 12 for "step.12.et" and "step.12.et.gz"; nothing for other names.
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

// The names of streams of the first trace that lists them; traces of other tools list none.
std::vector<std::string> TraceFolder::streams() const {
  for (const RankFile& rank : ranks) {
    const auto found = rank.trace.attributes.find("streams");
    if (found == rank.trace.attributes.end()) continue;
    if (const auto* names = std::get_if<std::vector<std::string>>(&found->second)) return *names;
  }
  return {};
}

// Reads the traces in the order of their ranks, which must be 0, 1, 2 and so on without gaps.
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

namespace {

constexpr std::size_t kFaultsMost = 10;

std::string described(const Node& node) {
  return fmt::format("node {} \"{}\"", node.id, node.name);
}

// The dependency graph of a trace. Nodes are identified by their position in the file.
class Order {
 public:
  Order(const RankTrace& trace, const std::string& file) : nodes_(trace.nodes), file_(file) {
    for (std::size_t place = 0; place < nodes_.size(); ++place) {
      const auto [first, fresh] = place_of_.try_emplace(nodes_[place].id, place);
      if (!fresh)
        report(fmt::format("{} has the id of {}", described(nodes_[place]),
                           described(nodes_[first->second])),
               "give every node of a rank its own id");
    }
    waits_.resize(nodes_.size());
    users_.resize(nodes_.size());
    for (std::size_t place = 0; place < nodes_.size(); ++place) {
      add_dependencies(place, nodes_[place].control);
      add_dependencies(place, nodes_[place].data);
    }
    if (!problems_.empty()) throw InputError(problems_);
  }

  // Returns the positions in a topological order (Kahn's algorithm, with a queue ordered by id).
  // Cost: O((nodes + dependencies) log nodes).
  std::vector<std::size_t> sorted() {
    const auto later = [this](std::size_t a, std::size_t b) { return nodes_[a].id > nodes_[b].id; };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> free(later);
    std::vector<std::size_t> open(nodes_.size());
    for (std::size_t place = 0; place < nodes_.size(); ++place) {
      open[place] = waits_[place].size();
      if (open[place] == 0) free.push(place);
    }
    std::vector<std::size_t> order;
    while (!free.empty()) {
      const std::size_t place = free.top();
      free.pop();
      order.push_back(place);
      for (const std::size_t user : users_[place])
        if (--open[user] == 0) free.push(user);
    }
    if (order.size() < nodes_.size()) refuse_cycle(open);
    return order;
  }

  [[nodiscard]] const std::vector<std::size_t>& waits(std::size_t place) const {
    return waits_[place];
  }

 private:
  void report(std::string problem, std::string hint) {
    if (problems_.size() < kFaultsMost)
      problems_.push_back({file_, "", std::move(problem), std::move(hint)});
  }

  void add_dependencies(std::size_t place, const std::vector<std::uint64_t>& ids) {
    for (const std::uint64_t id : ids) {
      const auto found = place_of_.find(id);
      if (found == place_of_.end()) {
        report(fmt::format("{} waits for node {}, which is not in the trace",
                           described(nodes_[place]), id),
               "was the trace cut? Convert the whole of it");
        continue;
      }
      waits_[place].push_back(found->second);
      users_[found->second].push_back(place);
    }
  }

  // Finds a cycle: every open node waits for another open one, so a walk backwards must return to a
  // node that it has visited.
  [[noreturn]] void refuse_cycle(const std::vector<std::size_t>& open) const {
    std::size_t at = 0;
    while (open[at] == 0) ++at;
    std::vector<std::size_t> path;
    std::vector<bool> seen(nodes_.size(), false);
    while (!seen[at]) {
      seen[at] = true;
      path.push_back(at);
      at = *std::find_if(waits_[at].begin(), waits_[at].end(),
                         [&open](std::size_t before) { return open[before] > 0; });
    }
    std::string cycle;
    for (auto place = std::find(path.begin(), path.end(), at); place != path.end(); ++place)
      cycle += described(nodes_[*place]) + " waits for ";
    throw InputError(Problem{file_, "",
                             "its nodes wait in a circle: " + cycle + described(nodes_[at]),
                             "an execution trace must have an order in which it ran"});
  }

  const std::vector<Node>& nodes_;
  std::string file_;
  std::map<std::uint64_t, std::size_t> place_of_;
  std::vector<std::vector<std::size_t>> waits_;  // by position in the file
  std::vector<std::vector<std::size_t>> users_;  // inverse of waits_
  std::vector<Problem> problems_;
};

}  // namespace

// A node that is not replayed passes its own dependencies on to its users, so that their order is
// preserved.
std::vector<Issued> issue_order(const RankTrace& trace,
                                const std::function<bool(const Node&)>& is_replayed,
                                const std::string& file) {
  Order order(trace, file);
  std::vector<Issued> issued;
  // By position in the file: the positions in `issued` whose ends a user of the node must wait for.
  std::vector<std::vector<std::size_t>> ends(trace.nodes.size());
  for (const std::size_t place : order.sorted()) {
    std::vector<std::size_t> after;
    for (const std::size_t before : order.waits(place))
      after.insert(after.end(), ends[before].begin(), ends[before].end());
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (is_replayed(trace.nodes[place])) {
      ends[place] = {issued.size()};
      issued.push_back({.node = &trace.nodes[place], .after = std::move(after)});
    } else {
      ends[place] = std::move(after);
    }
  }
  return issued;
}

}  // namespace trainyard::chakra
