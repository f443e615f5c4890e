// The attributes of a Chakra trace: the types that their values must have, and Chakra's names of
// collectives and groups.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/letters.hpp"
#include "sim/chakra/trace_file.hpp"

namespace trainyard::chakra {

namespace {

// The type that an attribute must have. An Amount is a number that is not negative.
enum class Read : std::uint8_t { Number, Amount, Text, Numbers };

struct ReadAttribute {
  std::string_view name;
  Read as;
};

// The attributes that an import reads.
constexpr std::array<ReadAttribute, 12> kRead = {{{"is_cpu_op", Read::Number},
                                                  {"stream", Read::Number},
                                                  {"num_ops", Read::Amount},
                                                  {"tensor_size", Read::Amount},
                                                  {"comm_size", Read::Amount},
                                                  {"comm_type", Read::Number},
                                                  {"comm_src", Read::Number},
                                                  {"comm_dst", Read::Number},
                                                  {"comm_tag", Read::Number},
                                                  {"pg_name", Read::Text},
                                                  {"involved_dim", Read::Numbers},
                                                  {"trainyard", Read::Text}}};

// Describes a value in an error message.
struct Shown {
  std::string operator()(double value) const { return fmt::format("the fraction {}", value); }
  std::string operator()(const std::string& value) const {
    constexpr std::size_t kShownMost = 40;
    return fmt::format("the text \"{}\"", value.substr(0, kShownMost));
  }
  std::string operator()(const std::vector<std::int64_t>&) const { return "a list of numbers"; }
  std::string operator()(const std::vector<std::string>&) const { return "a list of texts"; }
  std::string operator()(auto number) const { return fmt::format("{}", number); }
};

// Returns a description of the type that the value must have; empty where the value has it.
std::string_view lacks(Read as, const Attributes& attributes, const std::string& name) {
  const Value& value = attributes.at(name);
  const auto number = integer(attributes, name);
  switch (as) {
    case Read::Number:
      return number ? "" : "a whole number of 64 bits";
    case Read::Amount:
      return number && *number >= 0 ? "" : "a whole number from 0 to 2^63 - 1";
    case Read::Text:
      return number || std::holds_alternative<std::string>(value) ? "" : "a text";
    case Read::Numbers:
      return std::holds_alternative<std::vector<std::int64_t>>(value) ? "" : "a list of numbers";
  }
  return "";
}

// An import reads nodes of these types only. Attributes of other nodes may have any type.
bool is_read(NodeType type) { return type >= NodeType::MemLoad && type <= NodeType::Collective; }

struct CollectiveRow {
  std::string_view words;
  std::optional<CollectiveOp> op;
};

// The collectives by Chakra's number. An export writes the first entry that has the operation.
constexpr std::array<CollectiveRow, 10> kCollectives{
    {{"ALL_REDUCE", CollectiveOp::AllReduce},
     {"REDUCE", CollectiveOp::Reduce},
     {"ALL_GATHER", CollectiveOp::AllGather},
     {"GATHER", {}},
     {"SCATTER", {}},
     {"BROADCAST", CollectiveOp::Broadcast},
     {"ALL_TO_ALL", CollectiveOp::AllToAll},
     {"REDUCE_SCATTER", CollectiveOp::ReduceScatter},
     {"REDUCE_SCATTER_BLOCK", CollectiveOp::ReduceScatter},
     {"BARRIER", CollectiveOp::AllReduce}}};

bool is_row(std::int64_t number) {
  return number >= 0 && number < static_cast<std::int64_t>(kCollectives.size());
}

}  // namespace

std::optional<std::int64_t> integer(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  const Value& value = found->second;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* small = std::get_if<std::int32_t>(&value)) return *small;
  if (const auto* positive = std::get_if<std::uint64_t>(&value))
    return std::in_range<std::int64_t>(*positive) ? std::optional<std::int64_t>(*positive)
                                                  : std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return {};
}

// A whole number is accepted as a text.
std::string text(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  if (const auto* words = std::get_if<std::string>(&found->second)) return *words;
  const auto number = integer(attributes, name);
  return number ? std::to_string(*number) : std::string();
}

void check_attributes(const RankTrace& trace, const std::string& file) {
  // A faulty exporter repeats its error at every node, so ten problems are enough.
  constexpr std::size_t kProblemsMost = 10;
  std::vector<Problem> problems;
  const auto check = [&](const Attributes& attributes, const std::string& owner) {
    for (const auto& [name, as] : kRead) {
      // An absent attribute is no fault: most of them belong to some types of nodes only.
      const std::string key(name);
      if (!attributes.contains(key) || problems.size() >= kProblemsMost) continue;
      const std::string_view needed = lacks(as, attributes, key);
      if (needed.empty()) continue;
      problems.push_back(
          {file, "",
           fmt::format("{} has \"{}\": {}", owner, name, std::visit(Shown{}, attributes.at(key))),
           fmt::format("it must be {}", needed)});
    }
  };
  check(trace.attributes, "the trace");
  for (const Node& node : trace.nodes)
    if (is_read(node.type))
      check(node.attributes, fmt::format("node {} \"{}\"", node.id, node.name));
  if (!problems.empty()) throw InputError(problems);
}

std::int64_t collective_number(CollectiveOp op) {
  const auto row = std::find_if(kCollectives.begin(), kCollectives.end(),
                                [op](const CollectiveRow& one) { return one.op == op; });
  TY_CHECK(row != kCollectives.end());
  return row - kCollectives.begin();
}

std::optional<CollectiveOp> collective_of(std::int64_t number) {
  return is_row(number) ? kCollectives[static_cast<std::size_t>(number)].op : std::nullopt;
}

std::string collective_words(std::int64_t number) {
  return is_row(number) ? std::string(kCollectives[static_cast<std::size_t>(number)].words)
                        : fmt::format("type {}", number);
}

std::string group_name(GroupId group) { return fmt::format("{}", std::uint64_t{group} + 1); }

// Chakra's size is that of one member's input. The size of an all_gather here is the gathered
// buffer.
std::int64_t input_bytes(const Call& call, std::size_t members) {
  const std::int64_t bytes = bytes_of(call);
  return op_of(call) == CollectiveOp::AllGather ? bytes / static_cast<std::int64_t>(members)
                                                : bytes;
}

GroupKind kind_of(const std::string& description) {
  const std::string words = lower_case(description);
  // The group of an expert's data-parallel replicas counts as Expert, so Expert is tried before
  // Data. The words decide in this order, whatever else the description contains.
  for (const GroupKind kind : {GroupKind::Expert, GroupKind::Pipeline, GroupKind::Data,
                               GroupKind::Tensor, GroupKind::Context, GroupKind::Host})
    if (words.find(to_string(kind)) != std::string::npos) return kind;
  return GroupKind::Other;
}

}  // namespace trainyard::chakra
