#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/chakra/trace_file.hpp"

namespace trainyard::chakra {

namespace {

enum class Read : std::uint8_t { Number, Amount, Text, Numbers };

struct ReadAttribute {
  std::string_view name;
  Read as;
};

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

// Says what the value must be and is not; empty where it is.
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

bool is_read(NodeType type) { return type >= NodeType::MemLoad && type <= NodeType::Collective; }

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

std::string text(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  if (const auto* words = std::get_if<std::string>(&found->second)) return *words;
  const auto number = integer(attributes, name);
  return number ? std::to_string(*number) : std::string();
}

void check_attributes(const RankTrace& trace, const std::string& file) {
  constexpr std::size_t kProblemsMost = 10;
  std::vector<Problem> problems;
  const auto check = [&](const Attributes& attributes, const std::string& owner) {
    for (const auto& [name, as] : kRead) {
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

}  // namespace trainyard::chakra
