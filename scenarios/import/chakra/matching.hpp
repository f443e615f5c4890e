// Who meets whom in a folder of traces: process groups, the calls their members make, and what does
// not match.
//
//   Matching matching(folder, conventions);
//   const GroupKey key = matching.key_of(rank, node);
//   matching.meet(key, rank, node, call);        // for every communication, in issue order
//   matching.check();                            // all mismatches, named, in one InputError
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

// A group as traces tell it: by name and members, by the two ends of messages (and their tag, where
// the two do not send and receive in one order), or a rank and the memory of its host.
struct GroupKey {
  enum class Form : std::uint8_t { Numbered, Named, Message, Host } form = Form::Numbered;
  std::uint64_t number = 0;  // of a numbered group; of a message its tag
  std::string name = {};
  std::vector<RankId> members = {};  // the sender first
  auto operator<=>(const GroupKey&) const = default;
};

class Matching {
 public:
  // Reads the groups that the traces' metadata and the conventions' file define.
  Matching(const TraceFolder& folder, const Conventions& conventions);

  // REQUIRES: the node communicates, or loads or stores.
  [[nodiscard]] GroupKey key_of(RankId rank, const Node& node);
  // The call of a trace of others, as in a workload file.
  [[nodiscard]] nlohmann::ordered_json call(const GroupKey& key, RankId rank, const Node& node);
  void meet(const GroupKey& key, RankId rank, const Node& node, const nlohmann::ordered_json& call);
  void check() const;

  [[nodiscard]] GroupKind kind_of_group(const GroupKey& key) const;
  [[nodiscard]] std::map<GroupKey, std::size_t> numbers() const;  // of all groups that were met
  [[nodiscard]] nlohmann::ordered_json groups_json() const;

 private:
  struct Definition {
    std::vector<RankId> members;
    std::string description;
  };
  // One call as a member makes it; `content` is what must be equal.
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
