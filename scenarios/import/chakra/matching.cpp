#include "scenarios/import/chakra/matching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/chakra/trace_file.hpp"

namespace trainyard::chakra {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kProblemsMost = 10;
constexpr std::int64_t kBytesMost = 1LL << 53;

std::string described(RankId rank, const Node& node) {
  return fmt::format("rank {} node {} \"{}\"", rank, node.id, node.name);
}

std::optional<std::uint64_t> whole_number(const std::string& text) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc{} || read.ptr != text.data() + text.size()) return {};
  return number;
}

// Parses a table of groups. PyTorch writes it as text within a list, or as the list itself.
Json group_table(const std::string& words) {
  Json table = try_parse_json(words).value_or(Json());
  if (table.is_array() && !table.empty() && table[0].is_string())
    table = try_parse_json(table[0].get<std::string>()).value_or(Json());
  return table.is_array() ? table : Json::array();
}

// A rank as a trace writes it, which may not exist.
using RankNumber = std::uint64_t;

// Parses [0, 1], or {"0": 0, "1": 1} as older releases wrote it.
std::vector<RankNumber> members_of(const Json& ranks) {
  std::vector<RankNumber> members;
  for (const auto& [key, value] : ranks.items()) {
    if (ranks.is_array() && value.is_number_unsigned()) members.push_back(value.get<RankNumber>());
    if (!ranks.is_object()) continue;
    if (const auto rank = whole_number(key)) members.push_back(*rank);
  }
  return members;
}

std::string text_of(const Json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns the rank at an endpoint of a message. The conversion makes a negative number larger than
// every rank.
RankNumber end_of(const Node& node, const char* name, RankId otherwise) {
  return static_cast<RankNumber>(integer(node.attributes, name).value_or(otherwise));
}

std::string shown(const GroupKey& key) {
  const std::string members = fmt::format("{}", fmt::join(key.members, ", "));
  if (key.form == GroupKey::Form::Message) {
    return fmt::format("messages from rank {} to rank {}{}", key.members[0], key.members[1],
                       key.name);
  }
  return fmt::format("group \"{}\" of ranks {}", key.name, members);
}

}  // namespace

Matching::Matching(const TraceFolder& folder, const Conventions& conventions)
    : folder_(folder), conventions_(conventions) {
  for (const RankFile& rank : folder.ranks) read_metadata(rank);
  read_groups_file();
  find_tagged_pairs();
}

void Matching::report(const std::string& file, std::string problem, std::string hint) {
  if (problems_.size() < kProblemsMost)
    problems_.push_back({file, "", std::move(problem), std::move(hint)});
}

void Matching::define(const std::string& name, const Json& row) {
  Definition definition{.members = {}, .description = text_of(row, "pg_desc")};
  for (const RankNumber member : members_of(row.value("ranks", Json::array()))) {
    if (member < folder_.ranks.size()) {
      definition.members.push_back(static_cast<RankId>(member));
      continue;
    }
    report(folder_.path.string(),
           fmt::format("group \"{}\" has rank {}, of which there is no trace", name, member),
           fmt::format("the traces are of ranks 0 to {}", folder_.ranks.size() - 1));
    return;
  }
  // A group without a list of ranks has all ranks.
  if (definition.members.empty()) definition.members = world();
  definitions_.try_emplace(name, std::move(definition));
}

void Matching::read_metadata(const RankFile& rank) {
  for (const Node& node : rank.trace.nodes) {
    if (node.type != NodeType::Metadata || node.input_values.empty()) continue;
    for (const Json& row : group_table(node.input_values))
      if (row.is_object() && row.contains("pg_name") && row["pg_name"].is_string())
        define(row["pg_name"].get<std::string>(), row);
  }
}

void Matching::read_groups_file() {
  if (conventions_.groups.empty()) return;
  const std::string file = conventions_.groups.string();
  const Json table = parse_json(file, read_file(conventions_.groups));
  if (!table.is_object())
    return report(file, "must be an object of groups", "write {\"1\": [0, 1], \"2\": [2, 3]}");
  for (const auto& [name, ranks] : table.items()) define(name, {{"ranks", ranks}});
}

// Pairs whose sender and receiver tag their messages in the same order have one queue. Other pairs
// are matched tag by tag: sends with tags 1, 2 and receives with tags 2, 1 would otherwise pair
// different messages. The order here is that of the files.
void Matching::find_tagged_pairs() {
  std::map<std::pair<RankNumber, RankNumber>, std::array<std::vector<std::int64_t>, 2>> tags;
  for (RankId rank = 0; rank < folder_.ranks.size(); ++rank) {
    for (const Node& node : folder_.ranks[rank].trace.nodes) {
      const bool receives = node.type == NodeType::Recv;
      if (!receives && node.type != NodeType::Send) continue;
      tags[{end_of(node, "comm_src", rank), end_of(node, "comm_dst", rank)}][receives ? 1 : 0]
          .push_back(integer(node.attributes, "comm_tag").value_or(0));
    }
  }
  for (const auto& [pair, both] : tags) tagged_[pair] = both[0] != both[1];
}

std::vector<RankId> Matching::world() const {
  std::vector<RankId> all(folder_.ranks.size());
  std::iota(all.begin(), all.end(), RankId{0});
  return all;
}

// Returns the ranks that have the same coordinates as this one in every dimension that is not
// involved.
std::vector<RankId> Matching::along_dimensions(RankId rank, const Node& node) {
  const auto found = node.attributes.find("involved_dim");
  const auto* involved = found == node.attributes.end()
                             ? nullptr
                             : std::get_if<std::vector<std::int64_t>>(&found->second);
  const auto chosen = [](std::int64_t one) { return one != 0; };
  if (involved == nullptr || std::ranges::all_of(*involved, chosen)) return world();
  std::int64_t network_size = 1;
  for (const std::int64_t size : conventions_.dimensions) network_size *= size;
  if (conventions_.dimensions.size() != involved->size() ||
      network_size != static_cast<std::int64_t>(folder_.ranks.size())) {
    report(file_of(rank),
           fmt::format("{} takes part in some of {} dimensions", described(rank, node),
                       involved->size()),
           fmt::format("say how large each is: --dimensions, whose product is the {} ranks",
                       folder_.ranks.size()));
    return world();
  }
  const auto outside = [&](RankId other) {
    std::vector<std::int64_t> place;
    auto rest = static_cast<std::int64_t>(other);
    for (std::size_t d = 0; d < involved->size(); ++d) {
      if (!chosen((*involved)[d])) place.push_back(rest % conventions_.dimensions[d]);
      rest /= conventions_.dimensions[d];
    }
    return place;
  };
  std::vector<RankId> members;
  for (const RankId other : world())
    if (outside(other) == outside(rank)) members.push_back(other);
  return members;
}

GroupKey Matching::message_key(RankId rank, const Node& node) {
  const bool sends = node.type == NodeType::Send;
  const RankNumber source = end_of(node, "comm_src", rank);
  const RankNumber target = end_of(node, "comm_dst", rank);
  const RankNumber world_size = folder_.ranks.size();
  if ((sends ? source : target) != rank || source == target ||
      std::max(source, target) >= world_size) {
    report(file_of(rank),
           fmt::format("{} {} a message from rank {} to rank {}", described(rank, node),
                       sends ? "sends" : "receives", static_cast<std::int64_t>(source),
                       static_cast<std::int64_t>(target)),
           fmt::format("a rank sends from itself and receives to itself; there are ranks 0 to {}",
                       world_size - 1));
  }
  // A reported message keeps valid ends, so that the import can find further problems.
  const std::string group = text(node.attributes, "pg_name");
  const std::vector<RankId> ends{static_cast<RankId>(std::min(source, world_size - 1)),
                                 static_cast<RankId>(std::min(target, world_size - 1))};
  const auto defined = definitions_.find(group);
  if (defined != definitions_.end() && defined->second.members == ends)
    return {.number = whole_number(group).value_or(0), .name = group, .members = ends};
  const bool tagged = tagged_[{source, target}];
  const auto tag = integer(node.attributes, "comm_tag").value_or(0);
  return {.form = GroupKey::Form::Message,
          .number = tagged ? static_cast<std::uint64_t>(tag) : 0,
          .name = tagged ? fmt::format(" with tag {}", tag) : std::string(),
          .members = ends};
}

GroupKey Matching::key_of(RankId rank, const Node& node) {
  if (node.type == NodeType::MemLoad || node.type == NodeType::MemStore)
    return {.form = GroupKey::Form::Host, .members = {rank}};
  if (node.type != NodeType::Collective) return message_key(rank, node);
  const std::string name = text(node.attributes, "pg_name");
  const auto number = whole_number(name);
  const auto form = number ? GroupKey::Form::Numbered : GroupKey::Form::Named;
  const auto defined = definitions_.find(name);
  if (defined != definitions_.end()) {
    return {.form = form,
            .number = number.value_or(0),
            .name = name,
            .members = defined->second.members};
  }
  // Group 0 and calls without a group need no definition: their members follow from the dimensions.
  if (!name.empty() && number != 0) {
    report(file_of(rank),
           fmt::format("{} names group \"{}\", which nothing defines", described(rank, node), name),
           "give the groups in a file: --groups comm_groups.json");
  }
  return {.form = GroupKey::Form::Named, .name = name, .members = along_dimensions(rank, node)};
}

// Converts the bytes of one member's part to those of the whole buffer, where the trace's
// convention states the part.
std::int64_t Matching::whole_bytes(CollectiveOp op, std::int64_t bytes, std::size_t members) const {
  const bool part = (op == CollectiveOp::AllGather && !conventions_.all_gather_output) ||
                    (op == CollectiveOp::ReduceScatter && conventions_.reduce_scatter_output);
  return part ? bytes * static_cast<std::int64_t>(members) : bytes;
}

Json Matching::call(const GroupKey& key, RankId rank, const Node& node) {
  // An unreadable call is reported and replaced by a valid one, so that the import finds further
  // problems.
  std::int64_t bytes = integer(node.attributes, "comm_size").value_or(-1);
  if (bytes < 0) {
    report(file_of(rank), fmt::format("{} has no comm_size", described(rank, node)),
           "every communication says its bytes");
    bytes = 0;
  }
  // The limit applies to the sum over all members.
  if (bytes > kBytesMost / static_cast<std::int64_t>(key.members.size())) {
    report(file_of(rank),
           fmt::format("{} has a comm_size of {} for {} ranks", described(rank, node), bytes,
                       key.members.size()),
           fmt::format("all together may have {} bytes", kBytesMost));
    bytes = 0;
  }
  if (node.type != NodeType::Collective) {
    const char* algorithm = conventions_.algorithm == "nccl" ? "nccl" : "direct";
    return {{"op", "send_recv"}, {"bytes", bytes}, {"algorithm", algorithm}};
  }
  const auto told = integer(node.attributes, "comm_type");
  if (!told) {
    report(file_of(rank), fmt::format("{} has no comm_type", described(rank, node)),
           "every collective says which it is");
    return {{"op", "all_reduce"}, {"bytes", bytes}};
  }
  const std::int64_t type = *told;
  const std::optional<CollectiveOp> op = collective_of(type);
  if (!op) {
    report(
        file_of(rank),
        fmt::format("{} is a collective of {}, which cannot be replayed", described(rank, node),
                    collective_words(type)),
        "all_reduce, reduce, all_gather, broadcast, all_to_all, reduce_scatter and barriers can");
    return {{"op", "all_reduce"}, {"bytes", bytes}};
  }
  // PyTorch's barrier reduces one number.
  if (type == kBarrier) bytes = std::max<std::int64_t>(bytes, 4);
  return {{"op", to_string(*op)},
          {"bytes", whole_bytes(*op, bytes, key.members.size())},
          {"algorithm", conventions_.algorithm}};
}

// Members must agree on operation and bytes; the algorithm is not compared.
void Matching::meet(const GroupKey& key, RankId rank, const Node& node, const Json& call) {
  groups_[key][rank].push_back(
      {.node = &node,
       .content = fmt::format("{} of {} B", call.value("op", ""), call.value("bytes", 0LL))});
  if (std::find(key.members.begin(), key.members.end(), rank) != key.members.end()) return;
  report(file_of(rank),
         fmt::format("{} calls {}, to which it does not belong", described(rank, node), shown(key)),
         "correct the group's ranks");
}

// Compares each member's calls with those of the first member, in order, and reports the first
// difference of the group only.
void Matching::check_group(const GroupKey& key, const MemberCalls& calls,
                           std::vector<Problem>& problems) const {
  static const std::vector<MemberCall> kNothing;
  const auto of = [&calls](RankId rank) -> const std::vector<MemberCall>& {
    const auto found = calls.find(rank);
    return found == calls.end() ? kNothing : found->second;
  };
  const RankId first = key.members.front();
  for (const RankId other : key.members) {
    const std::vector<MemberCall>& a = of(first);
    const std::vector<MemberCall>& b = of(other);
    const std::size_t most = std::min(a.size(), b.size());
    std::size_t call = 0;
    while (call < most && a[call].content == b[call].content) ++call;
    if (call == a.size() && call == b.size()) continue;
    std::string problem = fmt::format("call {} of {}: ", call + 1, shown(key));
    if (call < most) {
      problem += fmt::format("{} is {}, {} is {}", described(first, *a[call].node), a[call].content,
                             described(other, *b[call].node), b[call].content);
    } else {
      const bool first_has = call < a.size();
      const MemberCall& alone = first_has ? a[call] : b[call];
      problem += fmt::format("{} ({}) finds no partner on rank {}",
                             described(first_has ? first : other, *alone.node), alone.content,
                             first_has ? other : first);
    }
    problems.push_back({folder_.path.string(), "", std::move(problem),
                        "all members make the same calls in the same order"});
    return;
  }
}

void Matching::check() const {
  std::vector<Problem> problems = problems_;
  for (const auto& [key, calls] : groups_) {
    if (problems.size() >= kProblemsMost) break;
    if (key.form != GroupKey::Form::Host) check_group(key, calls, problems);
  }
  if (!problems.empty()) throw InputError(problems);
}

GroupKind Matching::kind_of_group(const GroupKey& key) const {
  if (key.form == GroupKey::Form::Host) return GroupKind::Host;
  const auto defined = definitions_.find(key.name);
  if (defined != definitions_.end() && !defined->second.description.empty())
    return kind_of(defined->second.description);
  return key.form == GroupKey::Form::Message ? GroupKind::Pipeline : GroupKind::Other;
}

std::map<GroupKey, std::size_t> Matching::numbers() const {
  std::map<GroupKey, std::size_t> numbers;
  for (const auto& [key, calls] : groups_) numbers.try_emplace(key, numbers.size());
  return numbers;
}

Json Matching::groups_json() const {
  Json groups = Json::array();
  for (const auto& [key, calls] : groups_)
    groups.push_back({{"kind", to_string(kind_of_group(key))}, {"members", key.members}});
  return groups;
}

}  // namespace trainyard::chakra
