// Converts traces to the text of a workload file, which the reader of such files parses and checks.
#include "scenarios/import/chakra/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/import/chakra/matching.hpp"
#include "scenarios/import/chakra/traces.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/workload/kernel_json.hpp"
#include "sim/workload/workload_json.hpp"

namespace trainyard::chakra {

namespace {

using Json = nlohmann::ordered_json;

// A rank's trace as a program of a workload file.
struct RankProgram {
  std::string text = {};  // identical text for ranks that run the same program
  std::vector<std::pair<std::string, GroupKey>> slots = {};
  std::string label = {};
  std::uint32_t gpu = 0;
};

// A trace becomes a program: its operations in an order in which they can be issued. A program
// names its groups by slots ("data", "pipeline 2"), and the entry of a rank says which group each
// slot is. Ranks that do the same in different groups therefore have the same text, and share one
// program.
class Importer {
 public:
  Importer(const TraceFolder& folder, const Conventions& conventions)
      : folder_(folder), conventions_(conventions), matching_(folder, conventions) {}

  Imported import() {
    for (RankId rank = 0; rank < folder_.ranks.size(); ++rank)
      programs_.push_back(checked_program(rank));
    // This check comes before the parser's, because it names the nodes of the traces.
    matching_.check();
    imported_.workload = parse_workload(folder_.path.string(), document());
    return std::move(imported_);
  }

 private:
  // Converts a trace. The attribute "trainyard" may have been edited and hold a value of another
  // type.
  RankProgram checked_program(RankId rank) {
    try {
      return program(rank);
    } catch (const Json::exception& error) {
      throw InputError(Problem{folder_.ranks[rank].file, "",
                               fmt::format("an attribute \"trainyard\" is wrong: {}", error.what()),
                               "remove the attribute, or export the trace again"});
    }
  }

  [[nodiscard]] bool is_replayed(const Node& node) const {
    switch (node.type) {
      case NodeType::Compute:
        return !(conventions_.skip_cpu && integer(node.attributes, "is_cpu_op").value_or(0) != 0);
      case NodeType::MemLoad:
      case NodeType::MemStore:
        return !conventions_.skip_memory;
      case NodeType::Send:
      case NodeType::Recv:
      case NodeType::Collective:
        return true;
      case NodeType::Invalid:
      case NodeType::Metadata:
        return false;
    }
    return false;  // storage, batches, checkpoints
  }

  RankProgram program(RankId rank) {
    const RankTrace& trace = folder_.ranks[rank].trace;
    const std::string& file = folder_.ranks[rank].file;
    const Json own = exact(trace.attributes, file);
    const auto gpu = own.value("gpu", std::uint64_t{rank});
    if (gpu > std::numeric_limits<RankId>::max()) {
      throw InputError(
          Problem{file, "", fmt::format("gpu {} is out of range", gpu), "number GPUs from 0"});
    }
    RankProgram made{.label = own.value("label", fmt::format("rank {}", rank)),
                     .gpu = static_cast<RankId>(gpu)};
    const std::vector<Issued> order = issue_order(
        trace, [this](const Node& node) { return is_replayed(node); }, file);
    imported_.skipped += trace.nodes.size() - order.size();
    std::vector<std::string> streams;
    std::string operations;
    for (const Issued& issued : order) {
      Json op = operation(rank, *issued.node);
      streams.push_back(stream_of(*issued.node, op));
      op["stream"] = streams.back();
      if (issued.node->type != NodeType::Compute) meet(rank, *issued.node, made, op);
      // Operations on one stream are in order already.
      for (const std::size_t before : issued.after)
        if (streams[before] != streams.back()) op["after"].push_back(before);
      operations += (operations.empty() ? "\n" : ",\n") + op.dump();
    }
    for (const Json& category : own.value("memory_categories", Json::array()))
      add_word(categories_, category.get<std::string>());
    made.text =
        fmt::format("{{\"name\": {}, \"stage\": {}, \"resident\": {}, \"operations\": [{}\n]}}",
                    Json(own.value("program", "trace")).dump(), own.value("stage", 0),
                    own.value("resident", Json::array()).dump(), operations);
    return made;
  }

  // Returns the attribute that Trainyard's export adds; an empty object for traces of other tools.
  static Json exact(const Attributes& attributes, const std::string& file) {
    const std::string words = text(attributes, "trainyard");
    if (words.empty()) return Json::object();
    if (std::optional<Json> own = try_parse_json(words); own && own->is_object())
      return std::move(*own);
    throw InputError(Problem{file, "", "its attribute \"trainyard\" is no JSON object",
                             "remove the attribute, or export the trace again"});
  }

  Json operation(RankId rank, const Node& node) {
    Json op = exact(node.attributes, folder_.ranks[rank].file);
    if (!op.contains("name")) op["name"] = node.name.empty() ? "node" : node.name;
    const bool on_cpu = integer(node.attributes, "is_cpu_op").value_or(0) != 0;
    switch (node.type) {
      case NodeType::Compute:
        if (on_cpu) return delay(node, std::move(op));
        return compute(node, std::move(op));
      case NodeType::MemLoad:
      case NodeType::MemStore:
        return host_copy(node, std::move(op));
      case NodeType::Send:
        op["kind"] = to_string(OpKind::Send);
        return op;
      case NodeType::Recv:
        op["kind"] = to_string(OpKind::Recv);
        return op;
      default:
        op["kind"] = to_string(OpKind::Collective);
        return op;
    }
  }

  // Adds the call and the slot to the operation, and records the call for the check that all
  // members of the group agree.
  void meet(RankId rank, const Node& node, RankProgram& program, Json& op) {
    const GroupKey key = matching_.key_of(rank, node);
    if (!op.contains("call")) op["call"] = matching_.call(key, rank, node);
    op["slot"] = slot(program, key, op);
    matching_.meet(key, rank, node, op["call"]);
  }

  [[nodiscard]] double recorded_seconds(const Node& node) const {
    return static_cast<double>(node.duration_us) * conventions_.duration_unit_s;
  }

  Json delay(const Node& node, Json op) const {
    op["kind"] = to_string(OpKind::Delay);
    if (!op.contains("delay")) op["delay"] = fmt::format("{} s", recorded_seconds(node));
    return op;
  }

  // With Durations::Best a kernel shape has precedence over a recorded time, because it is priced
  // for the GPU that replays the trace. With Durations::Roofline a recorded time is used only where
  // the node has no work.
  Json compute(const Node& node, Json op) {
    const double seconds = op.value("seconds", recorded_seconds(node));
    op.erase("seconds");
    op["kind"] = to_string(OpKind::Compute);
    if (conventions_.durations == Durations::Best && op.contains("kernel")) {
      ++imported_.by_kernel;
      return op;
    }
    Recorded kernel{
        .flops = std::max<std::int64_t>(0, integer(node.attributes, "num_ops").value_or(0)),
        .bytes = std::max<std::int64_t>(0, integer(node.attributes, "tensor_size").value_or(0)),
        .dtype = conventions_.dtype};
    const bool has_work = kernel.flops > 0 || kernel.bytes > 0;
    if (conventions_.durations != Durations::Roofline || !has_work) kernel.seconds = seconds;
    ++(kernel.seconds > 0.0 ? imported_.recorded
       : has_work           ? imported_.roofline
                            : imported_.untimed);
    op["kernel"] = kernel_to_json(kernel);
    return op;
  }

  static Json host_copy(const Node& node, Json op) {
    if (op.contains("call")) return op;
    op["kind"] = to_string(OpKind::Collective);
    op["call"] = {{"op", to_string(CollectiveOp::HostCopy)},
                  {"bytes", integer(node.attributes, "tensor_size").value_or(0)},
                  {"algorithm", to_string(node.type == NodeType::MemLoad ? HostDirection::FromHost
                                                                         : HostDirection::ToHost)}};
    return op;
  }

  [[nodiscard]] std::string stream_of(const Node& node, const Json& op) {
    std::string name;
    const bool on_cpu = integer(node.attributes, "is_cpu_op").value_or(0) != 0;
    const auto number = integer(node.attributes, "stream");
    if (!conventions_.streams_by_kind && op.contains("stream")) {
      name = op["stream"].get<std::string>();
    } else if (!conventions_.streams_by_kind && number && !on_cpu) {
      name = fmt::format("stream {}", *number);
    } else {
      name = stream_of_kind(node.type, on_cpu);
    }
    ++uses_[name];
    if (node.type == NodeType::Compute && !on_cpu) ++computes_[name];
    return name;
  }

  // Returns one stream per resource. Sends and receives have separate streams, since two ranks that
  // send to each other would otherwise deadlock.
  static std::string stream_of_kind(NodeType type, bool on_cpu) {
    if (on_cpu) return "cpu";
    switch (type) {
      case NodeType::Send:
        return "send";
      case NodeType::Recv:
        return "recv";
      case NodeType::Collective:
        return "communication";
      case NodeType::MemLoad:
      case NodeType::MemStore:
        return "memory";
      default:
        return "compute";
    }
  }

  // Returns the rank's name for a group. The first group of a kind has the name of the kind, so
  // that ranks with the same operations share a program regardless of their groups.
  [[nodiscard]] std::string slot(RankProgram& program, const GroupKey& key, const Json& op) {
    for (const auto& [name, known] : program.slots)
      if (known == key) return name;
    const std::string kind(to_string(matching_.kind_of_group(key)));
    std::string name = op.value("slot", "");
    const auto taken = [&program](const std::string& word) {
      return std::any_of(program.slots.begin(), program.slots.end(),
                         [&word](const auto& one) { return one.first == word; });
    };
    if (name.empty() || taken(name)) {
      name = kind;
      for (int number = 2; taken(name); ++number) name = fmt::format("{} {}", kind, number);
    }
    add_word(slots_, name);
    program.slots.emplace_back(name, key);
    return name;
  }

  static void add_word(std::vector<std::string>& words, const std::string& word) {
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }

  // Returns the streams, those that the traces list first, then those with most computations.
  [[nodiscard]] std::vector<std::string> streams() const {
    std::vector<std::string> names;
    for (const auto& [name, count] : uses_) names.push_back(name);
    const auto computes = [this](const std::string& name) {
      const auto found = computes_.find(name);
      return found == computes_.end() ? std::size_t{0} : found->second;
    };
    const std::vector<std::string> ours = folder_.streams();
    const auto place = [&ours](const std::string& name) {
      return std::find(ours.begin(), ours.end(), name) - ours.begin();
    };
    std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
      if (place(a) != place(b)) return place(a) < place(b);
      return computes(a) > computes(b);
    });
    if (names.empty()) names.emplace_back("compute");
    return names;
  }

  [[nodiscard]] std::string document() const {
    std::map<std::string, std::size_t> distinct;
    const std::map<GroupKey, std::size_t> numbers = matching_.numbers();
    std::string programs, ranks;
    for (RankId rank = 0; rank < programs_.size(); ++rank) {
      const RankProgram& made = programs_[rank];
      // Ranks with identical text share a program, which makes folding possible.
      const auto [entry, fresh] = distinct.try_emplace(made.text, distinct.size());
      if (fresh) programs += (programs.empty() ? "\n" : ",\n") + made.text;
      Json slots = Json::object();
      for (const auto& [slot, key] : made.slots) slots[slot] = numbers.at(key);
      ranks += (rank == 0 ? "\n" : ",\n") + Json{{"program", entry->second},
                                                 {"gpu", made.gpu},
                                                 {"label", made.label},
                                                 {"slots", std::move(slots)}}
                                                .dump();
    }
    return fmt::format(
        "{{\"streams\": {}, \"slots\": {}, \"memory_categories\": {}, \"programs\": [{}], "
        "\"groups\": {}, \"ranks\": [{}]}}",
        Json(streams()).dump(), Json(slots_).dump(), Json(categories_).dump(), programs,
        matching_.groups_json().dump(), ranks);
  }

  const TraceFolder& folder_;
  const Conventions& conventions_;
  Matching matching_;
  Imported imported_;
  std::vector<RankProgram> programs_;
  std::vector<std::string> slots_;
  std::vector<std::string> categories_;
  std::map<std::string, std::size_t> uses_;      // number of nodes, by stream
  std::map<std::string, std::size_t> computes_;  // number of computations, by stream
};

}  // namespace

Imported read_traces(const std::filesystem::path& folder, const Conventions& conventions) {
  const TraceFolder traces = read_trace_folder(folder);
  for (const RankFile& rank : traces.ranks) check_attributes(rank.trace, rank.file);
  return Importer(traces, conventions).import();
}

}  // namespace trainyard::chakra
