// The reader of workload files (declared in workload_json.hpp, format in workload_format.md).
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "sim/base/checked.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/workload/kernel_json.hpp"
#include "sim/workload/workload.hpp"
#include "sim/workload/workload_json.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

// A table that also takes values given inline in operations. Equal inline values share one entry.
template <class Value>
class Interned {
 public:
  // Appends an element of the file's table, even if the table has an equal one, so that indices in
  // the file stay valid.
  void append(Value value) {
    known_.try_emplace(value, values_.size());
    values_.push_back(std::move(value));
  }
  std::size_t index_of(const Value& value) {
    const auto [entry, fresh] = known_.try_emplace(value, values_.size());
    if (fresh) values_.push_back(value);
    return entry->second;
  }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::vector<Value> taken() { return std::move(values_); }

 private:
  std::vector<Value> values_;
  std::map<Value, std::size_t> known_;
};

// The bytes that each member sends to each other one. A wrong entry ends the reading of the matrix:
// the others are likely to be wrong in the same way.
std::vector<std::int64_t> read_matrix(JsonObject& object) {
  const Json& matrix = object.raw("matrix");
  if (matrix.is_null()) return {};
  constexpr std::uint64_t kMost = 1ULL << 40;
  std::vector<std::int64_t> bytes;
  for (const Json& entry : matrix) {
    if (matrix.is_array() && entry.is_number_unsigned() && entry.get<std::uint64_t>() <= kMost) {
      bytes.push_back(entry.get<std::int64_t>());
      continue;
    }
    object.report("matrix",
                  fmt::format("{} is not a whole number of bytes up to 2^40", shown(entry)),
                  "an array of n*n numbers, those of member 0 to each member first");
    return {};
  }
  if (bytes.empty()) object.report("matrix", "has no numbers", "leave it out: all parts are equal");
  return bytes;
}

std::vector<RelayHop> read_hops(JsonObject& object) {
  std::vector<RelayHop> hops;
  if (!object.has("relay")) return hops;
  const auto end = [](JsonObject& hop, std::string_view key) {
    return static_cast<std::uint32_t>(hop.integer(key, {.least = 0, .most = 1LL << 31}));
  };
  for (JsonObject& hop : object.objects("relay"))
    hops.push_back(
        {.from = end(hop, "from"), .to = end(hop, "to"), .bytes = read_size(hop, "bytes", 0)});
  return hops;
}

// The algorithms "step" and "step_on" name kinds of messages; any other name is an algorithm of a
// whole message.
Call read_transfer(std::int64_t bytes, DataType dtype, std::string algorithm) {
  TransferCall call{.bytes = bytes, .dtype = dtype, .algorithm = std::move(algorithm)};
  for (const MessageKind kind : {MessageKind::Step, MessageKind::FollowingStep}) {
    const TransferCall step{.bytes = bytes, .dtype = dtype, .kind = kind};
    if (algorithm_of(step) == call.algorithm) return step;
  }
  return call;
}

Call read_host_copy(JsonObject& object, std::int64_t bytes, DataType dtype) {
  const std::string to_host(to_string(HostDirection::ToHost));
  const std::string from_host(to_string(HostDirection::FromHost));
  const bool leaves = object.choice("algorithm", {to_host, from_host}) == to_host;
  return HostCopyCall{.direction = leaves ? HostDirection::ToHost : HostDirection::FromHost,
                      .bytes = bytes,
                      .dtype = dtype};
}

// The kind of call follows from `op` and from the presence of "relay".
Call read_call(JsonObject& object) {
  const auto op = read_enumerator<CollectiveOp>(object, "op", CollectiveOp::HostCopy);
  const std::int64_t bytes = read_size(object, "bytes", 0);
  const auto dtype = read_enumerator(object, "dtype", DataType::Fp8, std::optional(DataType::Bf16));
  std::vector<std::int64_t> matrix = read_matrix(object);
  std::vector<RelayHop> hops = read_hops(object);
  const bool collective =
      op != CollectiveOp::SendRecv && op != CollectiveOp::HostCopy && hops.empty();
  if (!matrix.empty() && !collective)
    object.report("matrix", fmt::format("{} has no byte matrix", to_string(op)),
                  "only all_to_all may be uneven");
  if (op == CollectiveOp::HostCopy) return read_host_copy(object, bytes, dtype);
  if (!hops.empty()) {
    const bool follows = object.choice("algorithm", {"relay", "relay_on"}, "relay") == "relay_on";
    return RelayCall{
        .op = op, .bytes = bytes, .dtype = dtype, .hops = std::move(hops), .follows = follows};
  }
  std::string algorithm = object.text("algorithm", "ring");
  if (op == CollectiveOp::SendRecv) return read_transfer(bytes, dtype, std::move(algorithm));
  return CollectiveCall{.op = op,
                        .bytes = bytes,
                        .dtype = dtype,
                        .algorithm = std::move(algorithm),
                        .matrix = std::move(matrix)};
}

class WorkloadReader {
 public:
  explicit WorkloadReader(JsonFile& file) : file_(file), root_(file.root()) {}

  Workload read() {
    // Tables come before the programs that refer to them, and groups before ranks, whose group
    // ranks are looked up in the groups.
    workload_.streams = distinct_texts("streams", {"compute"}, 256);
    workload_.slots = distinct_texts("slots", {}, kMostOf16Bits);
    workload_.categories = distinct_texts("memory_categories", {}, kMostOf16Bits);
    for (const std::string& name : root_.texts("names", std::vector<std::string>{}))
      names_.append(name);
    for (JsonObject& kernel : root_.objects("kernels")) kernels_.append(read_kernel(kernel));
    for (JsonObject& call : root_.objects("calls")) calls_.append(read_call(call));
    read_delays();
    for (JsonObject& program : root_.objects("programs")) read_program(program);
    for (JsonObject& group : root_.objects("groups")) read_group(group);
    for (JsonObject& rank : root_.objects("ranks")) read_rank(rank);
    if (names_.size() > kMostOf16Bits) {
      file_.report("/programs", fmt::format("{} different operation names", names_.size()),
                   fmt::format("at most {} are possible; use microbatch and layer as tags instead",
                               kMostOf16Bits));
    }
    workload_.names = names_.taken();
    workload_.kernels = kernels_.taken();
    workload_.calls = calls_.taken();
    for (const double delay : delays_.taken()) workload_.delays.emplace_back(delay);
    return std::move(workload_);
  }

 private:
  static constexpr std::size_t kMostOf16Bits = 65536;
  static constexpr std::int64_t kMostMicrobatch = 1'000'000'000;
  static constexpr std::uint64_t kMostInputs = 1'000'000;
  static constexpr OpIndex kMostOperations = 1'000'000'000;

  std::vector<std::string> distinct_texts(std::string_view key, std::vector<std::string> fallback,
                                          std::size_t most) {
    std::vector<std::string> all = root_.texts(key, std::move(fallback));
    std::set<std::string> seen;
    for (const std::string& word : all) {
      if (!seen.insert(word).second) root_.report(key, fmt::format("\"{}\" is listed twice", word));
    }
    if (all.size() > most)
      root_.report(key, fmt::format("{} entries", all.size()), fmt::format("at most {}", most));
    return all;
  }

  // A wrong entry is reported and replaced by 0, so that the indices of the others stay valid.
  void read_delays() {
    const Json& delays = root_.raw("delays");
    if (!delays.is_null() && !delays.is_array()) {
      root_.report("delays", "must be an array of seconds");
      return;
    }
    for (const Json& delay : delays) {
      if (delay.is_number() && delay.get<double>() >= 0.0) {
        delays_.append(delay.get<double>());
      } else {
        root_.report("delays", fmt::format("{} is not a number of seconds", shown(delay)));
        delays_.append(0.0);
      }
    }
  }

  // A program has either one list of operations or blocks with instances.
  void read_program(JsonObject& object) {
    Program program;
    program.name = object.text("name", fmt::format("program {}", workload_.programs.size()));
    program.stage = static_cast<std::uint32_t>(
        object.integer("stage", {.fallback = 0, .least = 0, .most = 1'000'000}));
    for (JsonObject& held : object.objects("resident")) {
      program.resident.push_back(
          {.category = category(held), .bytes = read_size(held, "bytes", 0)});
    }
    OperationList::Content content;
    if (object.has("instances")) {
      for (JsonObject& block : object.objects("blocks")) read_block(block, program, content);
      read_instances(object, content);
      for (JsonObject& effect : object.objects("memory"))
        program.single_effects.emplace_back(number(effect, "operation"), read_effect(effect));
    } else {
      read_block(object, program, content);
      if (!content.blocks.empty()) content.instances.emplace_back();
    }
    program.operations = OperationList(std::move(content));
    check_memory(object, program);
    workload_.programs.push_back(std::move(program));
  }

  // Any amount of memory during the step is a partial sum of these sizes, so their total must fit
  // into 64 bits.
  static void check_memory(JsonObject& object, const Program& program) {
    try {
      std::int64_t sum = 0;
      for (const ResidentMemory& held : program.resident) sum = checked_sum(sum, held.bytes);
      program.for_each_effect([&](OpIndex, const Operation&, const MemoryEffect& effect) {
        sum = checked_sum(sum, std::abs(effect.bytes));
      });
    } catch (const SizeOverflow&) {
      object.report("operations", "allocate and free more than 2^63 bytes in all",
                    "check the sizes under \"memory\" and \"resident\"");
    }
  }

  // Reads the operations of a block, or of a program that is one block.
  void read_block(JsonObject& object, Program& program, OperationList::Content& content) {
    Block block{.begin = static_cast<OpIndex>(content.operations.size())};
    // Maps a name to its index in the block, or to kNone if several operations have the name.
    std::map<std::string, OpIndex> by_name;
    for (JsonObject& operation : object.objects("operations")) {
      read_operation(operation, program, content, block, by_name);
      const auto [entry, fresh] = by_name.try_emplace(operation.text("name"), block.count);
      if (!fresh) entry->second = kNone;
      ++block.count;
    }
    if (block.count > 0) content.blocks.push_back(block);
  }

  // Rejects instances that do not fit their block, because the constructor of OperationList
  // requires that they do. validate() checks the bindings themselves.
  static void read_instances(JsonObject& object, OperationList::Content& content) {
    OpIndex next = 0;
    for (JsonObject& read : object.objects("instances")) {
      const Instance instance{
          .first = next,
          .block = number(read, "block"),
          .microbatch = static_cast<std::int32_t>(read.integer(
              "microbatch", {.fallback = 0, .least = -kMostMicrobatch, .most = kMostMicrobatch})),
          .bindings = static_cast<std::uint32_t>(content.bindings.size())};
      for (const Json& input : read.raw("inputs")) {
        const bool fits = input.is_number_unsigned() && input.get<std::uint64_t>() < kNone;
        content.bindings.push_back(fits ? input.get<OpIndex>() : kNone);
      }
      const std::size_t inputs = content.bindings.size() - instance.bindings;
      if (instance.block >= content.blocks.size() ||
          content.blocks[instance.block].inputs != inputs) {
        read.report("block", "is no block of the program with as many inputs",
                    "blocks are numbered from 0; \"inputs\" are numbers of earlier operations");
        content.bindings.resize(instance.bindings);
        continue;
      }
      const OpIndex count = content.blocks[instance.block].count;
      if (count > kMostOperations - next) {
        read.report("block", fmt::format("makes more than {} operations", kMostOperations),
                    "give the program fewer instances");
        content = {};
        return;
      }
      content.instances.push_back(instance);
      next += count;
    }
  }

  MemoryEffect read_effect(JsonObject& effect) {
    return {.category = category(effect),
            .at_end = effect.choice("when", {"start", "end"}) == "end",
            .bytes = read_size(effect, "bytes", std::numeric_limits<std::int64_t>::min())};
  }

  void read_operation(JsonObject& object, Program& program, OperationList::Content& content,
                      Block& block, const std::map<std::string, OpIndex>& by_name) {
    Operation op;
    op.kind = read_enumerator<OpKind>(object, "kind", OpKind::Delay);
    op.name = static_cast<std::uint16_t>(names_.index_of(object.text("name")));
    if (!workload_.streams.empty()) {
      op.stream = static_cast<std::uint8_t>(holder_of(
          object.choice("stream", workload_.streams, workload_.streams[0]), workload_.streams));
    }
    op.work = object.choice("work", {"compute", "optimizer"}, "compute") == "optimizer"
                  ? WorkClass::Optimizer
                  : WorkClass::Compute;
    op.part = read_enumerator(object, "part", StepPart::Other, std::optional(StepPart::Other));
    op.microbatch = tag(object, "microbatch");
    op.layer = tag(object, "layer");
    read_payload(object, op);
    op.dependencies_begin = static_cast<std::uint32_t>(content.dependencies.size());
    read_after(object, content, block, by_name);
    op.dependencies_end = static_cast<std::uint32_t>(content.dependencies.size());
    op.effects_begin = static_cast<std::uint32_t>(program.effects.size());
    for (JsonObject& effect : object.objects("memory"))
      program.effects.push_back(read_effect(effect));
    op.effects_end = static_cast<std::uint32_t>(program.effects.size());
    content.operations.push_back(op);
  }

  static std::int32_t tag(JsonObject& object, std::string_view key) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    return static_cast<std::int32_t>(
        object.integer(key, {.fallback = -1, .least = -1, .most = kMost}));
  }

  void read_payload(JsonObject& object, Operation& op) {
    if (op.kind == OpKind::Compute) {
      op.payload = object.raw("kernel").is_number()
                       ? number(object, "kernel")
                       : in_place(object, "kernel", kernels_, read_kernel);
    } else if (op.kind == OpKind::Delay) {
      op.payload = object.raw("delay").is_number()
                       ? number(object, "delay")
                       : static_cast<std::uint32_t>(delays_.index_of(object.time("delay").value()));
    } else {
      const std::string slot = object.choice("slot", workload_.slots);
      op.slot = static_cast<std::uint16_t>(holder_of(slot, workload_.slots));
      op.payload = object.raw("call").is_number() ? number(object, "call")
                                                  : in_place(object, "call", calls_, read_call);
    }
  }

  // Reads an index. validate() checks that it is in range.
  static std::uint32_t number(JsonObject& object, std::string_view key) {
    return static_cast<std::uint32_t>(object.integer(key, {.least = 0, .most = kNone - 1}));
  }

  template <class Value, class Read>
  static std::uint32_t in_place(JsonObject& object, std::string_view key, Interned<Value>& table,
                                Read read) {
    JsonObject value = object.object(key);
    return static_cast<std::uint32_t>(table.index_of(read(value)));
  }

  // A dependency is an earlier operation of the block, by index or by a unique name, or an input.
  static void read_after(JsonObject& object, OperationList::Content& content, Block& block,
                         const std::map<std::string, OpIndex>& by_name) {
    const Json& after = object.raw("after");
    if (!after.is_null() && !after.is_array()) {
      object.report("after", fmt::format("must be an array, not {}", shown(after)));
      return;
    }
    for (const Json& before : after) {
      if (before.is_number_unsigned() && before.get<std::uint64_t>() < block.count) {
        content.dependencies.push_back(before.get<OpIndex>());
        continue;
      }
      if (before.is_object() && before.size() == 1 && before.contains("input") &&
          before["input"].is_number_unsigned() &&
          before["input"].get<std::uint64_t>() < kMostInputs) {
        const auto input = before["input"].get<OpIndex>();
        content.dependencies.push_back(kBlockInput + input);
        block.inputs = std::max(block.inputs, input + 1);
        continue;
      }
      const auto named =
          before.is_string() ? by_name.find(before.get<std::string>()) : by_name.end();
      if (named != by_name.end() && named->second != kNone) {
        content.dependencies.push_back(named->second);
        continue;
      }
      const bool several = named != by_name.end();
      object.report(
          "after",
          fmt::format("{} is not {} operation of this program", shown(before),
                      several ? "the name of only one" : "an earlier"),
          several ? "give the operation's number" : "operations are listed in issue order");
    }
  }

  std::uint16_t category(JsonObject& object) {
    return static_cast<std::uint16_t>(
        holder_of(object.choice("category", workload_.categories), workload_.categories));
  }

  // Returns 0 for an unknown word, because the reader has already reported it.
  static std::size_t holder_of(const std::string& word, const std::vector<std::string>& words) {
    const auto place = std::ranges::find(words, word);
    return place == words.end() ? 0 : static_cast<std::size_t>(place - words.begin());
  }

  void read_group(JsonObject& object) {
    Group group{
        .kind = read_enumerator(object, "kind", GroupKind::Other, std::optional(GroupKind::Other)),
        .members = {}};
    const Json& members = object.raw("members");
    if (!members.is_array()) object.report("members", "must be an array of rank numbers");
    for (std::size_t i = 0; members.is_array() && i < members.size(); ++i) {
      if (members[i].is_number_unsigned() && members[i].get<std::uint64_t>() < kNone) {
        // A rank that is listed twice keeps its first group rank here; validate() reports it.
        group_rank_.try_emplace({workload_.groups.size(), members[i].get<std::uint32_t>()},
                                group.members.size());
        group.members.emplace_back(members[i].get<std::uint32_t>());
      } else {
        object.report("members", fmt::format("{} is not a rank number", shown(members[i])));
      }
    }
    workload_.groups.push_back(std::move(group));
  }

  void read_rank(JsonObject& object) {
    const auto number_of_rank = static_cast<std::uint32_t>(workload_.ranks.size());
    Rank rank{.program = number(object, "program"),
              .gpu = number(object, "gpu"),
              .slots = std::vector<SlotBinding>(workload_.slots.size()),
              .label = object.text("label", fmt::format("rank {}", number_of_rank))};
    JsonObject slots = object.object("slots");
    for (std::size_t slot = 0; slot < workload_.slots.size(); ++slot) {
      if (!slots.has(workload_.slots[slot])) continue;
      const std::uint32_t group = number(slots, workload_.slots[slot]);
      const auto group_rank = group_rank_.find({group, number_of_rank});
      if (group_rank == group_rank_.end()) {
        slots.report(workload_.slots[slot],
                     fmt::format("rank {} is not a member of group {}", number_of_rank, group),
                     "list the rank among the group's members");
        continue;
      }
      rank.slots[slot] = {.group = GroupId{group},
                          .group_rank = static_cast<std::uint32_t>(group_rank->second)};
    }
    workload_.ranks.push_back(std::move(rank));
  }

  JsonFile& file_;
  JsonObject root_;
  Workload workload_;
  Interned<std::string> names_;
  Interned<Kernel> kernels_;
  Interned<Call> calls_;
  Interned<double> delays_;
  std::map<std::pair<std::size_t, RankId>, std::size_t> group_rank_;  // group rank by (group, rank)
};

// Problems of the file end the reading before the workload as a whole is checked.
Workload read_from(JsonFile file) {
  Workload workload = WorkloadReader(file).read();
  const std::string name = file.name();
  file.finish();
  validate(workload, name);
  check_progress(workload, name);
  return workload;
}

}  // namespace

Workload read_workload(const std::filesystem::path& file) {
  return read_from(JsonFile::read(file));
}

Workload parse_workload(const std::string& name, std::string_view text) {
  return read_from(JsonFile::parse(name, text));
}

}  // namespace trainyard
