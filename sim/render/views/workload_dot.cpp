// Draws a workload for Graphviz (declared in views.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graphviz.hpp>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/render/views/views.hpp"
#include "sim/workload/call_sequences.hpp"

namespace trainyard {

namespace {

struct OperationBox {
  std::string label;
  std::string colour;
  bool note = false;
};
struct Arrow {
  std::string style;
};
using WorkloadDrawing =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, OperationBox, Arrow>;

std::string_view colour_of(StepPart part) {
  switch (part) {
    case StepPart::Forward:
      return "#cfe2f3";
    case StepPart::Backward:
      return "#d9ead3";
    case StepPart::Recompute:
      return "#d0e0e3";
    case StepPart::WeightGrad:
      return "#b6d7a8";
    case StepPart::GradSync:
      return "#fce5cd";
    case StepPart::ParamSync:
      return "#fff2cc";
    case StepPart::Optimizer:
      return "#ead1dc";
    case StepPart::Other:
      return "#eeeeee";
  }
  return "#eeeeee";
}

// Solid edges are the order of a stream, dashed edges are dependencies, and dotted edges join
// operations that meet.
class Drawer {
 public:
  Drawer(const Workload& workload, const DotOptions& options)
      : workload_(workload), sequences_(workload) {
    for (std::uint32_t program = 0; program < workload.programs.size(); ++program) {
      if (options.program.value_or(program) == program) programs_.push_back(program);
    }
    // All programs get an equal part of the operations that may be drawn.
    each_ = std::max<std::size_t>(
        1, options.most_operations / std::max<std::size_t>(1, programs_.size()));
  }

  WorkloadDrawing drawn() {
    for (const std::uint32_t program : programs_) draw_program(program);
    for (const std::uint32_t program : programs_) draw_all_rendezvous(program);
    return drawing_;
  }

 private:
  void draw_program(std::uint32_t number) {
    const Program& program = workload_.programs[number];
    const std::size_t shown = std::min(each_, program.operations.size());
    std::map<std::uint8_t, std::size_t> last_on_stream;
    first_[number] = boost::num_vertices(drawing_);
    for (OpIndex i = 0; i < shown; ++i) {
      const Operation& op = program.operations[i];
      const std::size_t box = boost::add_vertex(box_of(program, i), drawing_);
      const auto [last, first] = last_on_stream.try_emplace(op.stream, box);
      if (!first) boost::add_edge(std::exchange(last->second, box), box, Arrow{"solid"}, drawing_);
      for (const OpIndex before : program.dependencies_of(i)) {
        boost::add_edge(first_[number] + before, box, Arrow{"dashed"}, drawing_);
      }
    }
    if (shown < program.operations.size()) {
      const std::size_t note = boost::add_vertex(
          OperationBox{fmt::format("{}: {} more operations not drawn", program.name,
                                   program.operations.size() - shown),
                       "#ffffff", true},
          drawing_);
      boost::add_edge(note - 1, note, Arrow{"solid"}, drawing_);
    }
  }

  [[nodiscard]] OperationBox box_of(const Program& program, OpIndex index) const {
    const Operation& op = program.operations[index];
    std::string label =
        fmt::format("{} {} {}\n{} on {}", program.name, index, workload_.names[op.name],
                    to_string(op.kind), workload_.streams[op.stream]);
    if (communicates(op.kind)) {
      const Call& call = workload_.calls[op.payload];
      label += fmt::format("\n{} {} bytes, {}", to_string(op_of(call)), bytes_of(call),
                           workload_.slots[op.slot]);
    }
    return {std::move(label), std::string(colour_of(op.part)), false};
  }

  // Draws lines from the program's operations to the operations of other programs that they meet.
  // The lowest rank of the program determines the groups.
  void draw_all_rendezvous(std::uint32_t program) {
    const auto rank = std::ranges::find(workload_.ranks, program, &Rank::program);
    if (rank == workload_.ranks.end()) return;
    std::set<GroupId> groups;
    for (const SlotBinding& slot : rank->slots) {
      if (slot.group != kNone) groups.insert(slot.group);
    }
    const auto id = static_cast<RankId>(rank - workload_.ranks.begin());
    for (const GroupId group : groups) draw_all_rendezvous(group, id);
  }

  // Operation i of one member meets operation i of every other member: the calls of a group are in
  // the same order on all members. Members that run the same program would add no line.
  void draw_all_rendezvous(GroupId group, RankId rank) {
    const std::vector<RankId>& members = workload_.groups[group].members;
    const auto group_rank =
        static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
    for (std::size_t other = 0; other < members.size(); ++other) {
      const std::uint32_t from = workload_.ranks[rank].program;
      const std::uint32_t to = workload_.ranks[members[other]].program;
      if (from == to) continue;
      const std::vector<OpIndex>& mine = sequences_.operations(group, group_rank);
      const std::vector<OpIndex>& theirs = sequences_.operations(group, other);
      for (std::size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
        draw_rendezvous(from, mine[i], to, theirs[i]);
      }
    }
  }

  void draw_rendezvous(std::uint32_t from, OpIndex a, std::uint32_t to, OpIndex b) {
    if (!first_.contains(to) || a >= each_ || b >= each_) return;
    const OpKind kind = workload_.programs[from].operations[a].kind;
    // Both programs reach this function for one rendezvous. A canonical order, from send to
    // receive, makes their edges equal, and `met_` keeps one.
    std::pair<std::size_t, std::size_t> ends{first_[from] + a, first_[to] + b};
    if (kind == OpKind::Recv || (kind == OpKind::Collective && ends.first > ends.second)) {
      std::swap(ends.first, ends.second);
    }
    if (!met_.insert(ends).second) return;
    // The writer puts the text between quotes. The quotes inside end `style` and begin `dir`.
    const Arrow arrow{kind == OpKind::Collective ? "dotted\", dir=\"none" : "dotted"};
    boost::add_edge(ends.first, ends.second, arrow, drawing_);
  }

  const Workload& workload_;
  CallSequences sequences_;
  std::vector<std::uint32_t> programs_;
  std::size_t each_ = 0;                        // operations drawn of each program
  std::map<std::uint32_t, std::size_t> first_;  // first box, by program
  std::set<std::pair<std::size_t, std::size_t>> met_;
  WorkloadDrawing drawing_;
};

// Quotes a text for Graphviz, where "\n" starts a new line.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return result + "\"";
}

}  // namespace

std::string to_dot(const Workload& workload, const DotOptions& options) {
  TY_CHECK(options.program.value_or(0) < workload.programs.size(), workload.programs.size());
  const WorkloadDrawing drawing = Drawer(workload, options).drawn();
  std::ostringstream text;
  boost::write_graphviz(
      text, drawing,
      [&](std::ostream& out, std::size_t box) {
        out << "[label=" << quoted(drawing[box].label) << ", style=\"filled\", fillcolor=\""
            << drawing[box].colour << "\", shape=\"" << (drawing[box].note ? "note" : "box")
            << "\"]";
      },
      [&](std::ostream& out, const auto& arrow) {
        out << "[style=\"" << drawing[arrow].style << "\"]";
      });
  return text.str();
}

}  // namespace trainyard
