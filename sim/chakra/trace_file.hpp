// A Chakra execution trace (MLCommons) as a value: the nodes of one rank, their dependencies and
// named attributes, and Chakra's names for Trainyard's collectives and groups. The file is a
// sequence of protobuf messages, each preceded by its length; the first message is the metadata.
//
//    RankTrace trace = from_bytes(read_file("step.0.et"), "step.0.et");
//    text(trace.nodes[0].attributes, "pg_name");    // "1"
//    write_file("copy.0.et", to_bytes(trace));
//
// This library needs protobuf (Debian: libprotobuf-dev, protobuf-compiler). Without it everything
// else builds, and reading or writing a trace fails with a message that names the packages to
// install.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard::chakra {

// Node types with the schema's numbers. The import ignores types above Collective (storage, batch,
// checkpoint).
enum class NodeType : std::int32_t {
  Invalid = 0,
  Metadata = 1,
  MemLoad = 2,
  MemStore = 3,
  Compute = 4,
  Send = 5,
  Recv = 6,
  Collective = 7
};

// The value of an attribute. Writing keeps the type; reading yields int64, uint64 (for numbers
// beyond int64), double, bool, string, or a list of int64 or of strings.
using Value = std::variant<std::int64_t, std::int32_t, std::uint64_t, double, bool, std::string,
                           std::vector<std::int64_t>, std::vector<std::string>>;
using Attributes = std::map<std::string, Value>;

// Reads an attribute as an integer. Writers of traces differ in types, so any integer or bool
// counts. Returns nothing for a value of another type, and for one that does not fit into int64.
[[nodiscard]] std::optional<std::int64_t> integer(const Attributes& attributes,
                                                  const std::string& name);
// Reads an attribute as text; an integer is converted to decimal digits, and other types yield "".
[[nodiscard]] std::string text(const Attributes& attributes, const std::string& name);

struct Node {
  std::uint64_t id = 0;
  std::string name = {};
  NodeType type = NodeType::Invalid;
  std::vector<std::uint64_t> control = {};  // ids of nodes that must have ended
  std::vector<std::uint64_t> data = {};     // ids of nodes whose results this node needs
  std::uint64_t start_us = 0;
  std::uint64_t duration_us = 0;
  std::string input_values = {};  // of a metadata node: the process groups as JSON
  Attributes attributes = {};
};

struct RankTrace {
  std::string version = "0.0.4";  // version of the schema
  Attributes attributes = {};
  std::vector<Node> nodes = {};
};

// Throws InputError, which names `file`, for bytes that are not such a trace and in a build without
// protobuf.
[[nodiscard]] RankTrace from_bytes(std::string_view bytes, const std::string& file);
[[nodiscard]] std::string to_bytes(const RankTrace& trace);

// Throws InputError that names each attribute whose type or size an import cannot use: for example
// text as a number of bytes, a negative number of bytes, or 2^63.
void check_attributes(const RankTrace& trace, const std::string& file);

// Throws InputError in a build without protobuf.
void refuse_unless_built_in(const std::string& file);

// Returns Chakra's number of a collective (CollectiveCommType). REQUIRES: a collective between
// GPUs.
[[nodiscard]] std::int64_t collective_number(CollectiveOp op);
// Returns nothing for collectives without a counterpart (gather, scatter). A barrier becomes an
// all_reduce.
[[nodiscard]] std::optional<CollectiveOp> collective_of(std::int64_t number);
// Returns Chakra's name, "ALL_GATHER"; "type 12" for an unknown number.
[[nodiscard]] std::string collective_words(std::int64_t number);
// Chakra's number of a barrier.
inline constexpr std::int64_t kBarrier = 9;

// Returns the name of a group, counted from 1. Chakra uses "0" and "" for the group of all ranks.
[[nodiscard]] std::string group_name(GroupId group);

// Returns the bytes that one of `members` ranks contributes. To an all_gather a rank contributes
// its own part only.
[[nodiscard]] std::int64_t input_bytes(const Call& call, std::size_t members);

// Returns the kind of group that a description such as "DATA_PARALLEL_GROUP_WITH_CP" names; Other
// where it names none.
[[nodiscard]] GroupKind kind_of(const std::string& description);

}  // namespace trainyard::chakra
