// Matches communication in a folder of traces: process groups, the calls of their members, and
// calls without a partner.
//
//    Matching matching(folder, conventions);
//    const GroupKey key = matching.key_of(rank, node);
//    matching.meet(key, rank, node, call);        // for every communication, in issue order
//    matching.check();                            // all mismatches, named, in one InputError
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/import/chakra/import.hpp"
#include "scenarios/import/chakra/traces.hpp"
#include "sim/base/error.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard::chakra {

// Identifies a group as traces describe it: by name and members, by the two endpoints of messages
// (and their tag, where sender and receiver tag their messages in different orders), or by a rank
// whose host memory it uses.
struct GroupKey {
  enum class Form : std::uint8_t { Numbered, Named, Message, Host } form = Form::Numbered;
  std::uint64_t number = 0;  // number of a numbered group; tag of a message
  std::string name = {};
  std::vector<RankId> members = {};  // sender first
  auto operator<=>(const GroupKey&) const = default;
};

class Matching {
 public:
  // Reads the groups that the traces' metadata and the conventions' file define.
  Matching(const TraceFolder& folder, const Conventions& conventions);

  // REQUIRES: the node communicates, or loads or stores.
  [[nodiscard]] GroupKey key_of(RankId rank, const Node& node);
  // Converts the call of a node to the form of a workload file, for traces of other tools.
  [[nodiscard]] nlohmann::ordered_json call(const GroupKey& key, RankId rank, const Node& node);
  // Records a call of a rank on a group.
  void meet(const GroupKey& key, RankId rank, const Node& node, const nlohmann::ordered_json& call);
  // Throws InputError with all problems so far and all calls that do not match.
  void check() const;

  [[nodiscard]] GroupKind kind_of_group(const GroupKey& key) const;
  // Position in groups_json(), for all groups with calls.
  [[nodiscard]] std::map<GroupKey, std::size_t> numbers() const;
  [[nodiscard]] nlohmann::ordered_json groups_json() const;

 private:
  struct Definition {
    std::vector<RankId> members;
    std::string description;
  };
  // One call of a member; `content` must be equal on all members.
  struct MemberCall {
    const Node* node = nullptr;
    std::string content;
  };
  using MemberCalls = std::map<RankId, std::vector<MemberCall>>;

  void read_metadata(const RankFile& rank);
  void read_groups_file();
  void define(const std::string& name, const nlohmann::ordered_json& row);
  void find_tagged_pairs();
  void report(const std::string& file, std::string problem, std::string hint);
  [[nodiscard]] const std::string& file_of(RankId rank) const { return folder_.ranks[rank].file; }
  [[nodiscard]] GroupKey message_key(RankId rank, const Node& node);
  [[nodiscard]] std::vector<RankId> world() const;
  [[nodiscard]] std::vector<RankId> along_dimensions(RankId rank, const Node& node);
  [[nodiscard]] std::int64_t whole_bytes(CollectiveOp op, std::int64_t bytes,
                                         std::size_t members) const;
  void check_group(const GroupKey& key, const MemberCalls& calls,
                   std::vector<Problem>& problems) const;

  const TraceFolder& folder_;
  const Conventions& conventions_;
  std::map<std::string, Definition> definitions_;                   // by pg_name
  std::map<std::pair<std::uint64_t, std::uint64_t>, bool> tagged_;  // by sender and receiver
  std::map<GroupKey, MemberCalls> groups_;
  std::vector<Problem> problems_;
};

}  // namespace trainyard::chakra
