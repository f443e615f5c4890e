// A Chakra execution trace (MLCommons) as a value: one rank's nodes, what each waits for, and named
// attributes, with Chakra's names for our collectives and groups. The file is protobuf messages,
// each after its length; the first is the metadata.
//
//   RankTrace trace = from_bytes(read_file("step.0.et"), "step.0.et");
//   text(trace.nodes[0].attributes, "pg_name");    // "1"
//   write_file("copy.0.et", to_bytes(trace));
//
// This box needs protobuf (Debian: libprotobuf-dev, protobuf-compiler). Without it everything else
// builds, and reading or writing a trace is refused with what to install.
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

// The schema's own numbers; those above Collective (storage, batch, checkpoint) are not replayed.
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

// Written in the kind it has; read as int64, double, bool, string or a list of int64 or strings.
using Value = std::variant<std::int64_t, std::int32_t, std::uint64_t, double, bool, std::string,
                           std::vector<std::int64_t>, std::vector<std::string>>;
using Attributes = std::map<std::string, Value>;

// The kinds are read leniently, as writers differ: any integer or bool is a number. Nothing for a
// value that is no number, or that needs more than 64 bits with a sign.
[[nodiscard]] std::optional<std::int64_t> integer(const Attributes& attributes,
                                                  const std::string& name);
[[nodiscard]] std::string text(const Attributes& attributes, const std::string& name);

struct Node {
  std::uint64_t id = 0;
  std::string name = {};
  NodeType type = NodeType::Invalid;
  std::vector<std::uint64_t> control = {};  // ids that must have ended
  std::vector<std::uint64_t> data = {};
  std::uint64_t start_us = 0;
  std::uint64_t duration_us = 0;
  std::string input_values = {};  // in a metadata node: the process groups, as JSON
  Attributes attributes = {};
};

struct RankTrace {
  std::string version = "0.0.4";  // of the schema
  Attributes attributes = {};
  std::vector<Node> nodes = {};
};

// Throws InputError for bytes that are no such trace, and where protobuf was not built in; `file`
// is named in it.
[[nodiscard]] RankTrace from_bytes(std::string_view bytes, const std::string& file);
[[nodiscard]] std::string to_bytes(const RankTrace& trace);

// Throws InputError that names each attribute that an import reads and that has a kind or a size
// which it cannot have: a text for a number of bytes, a negative number of them, 2^63.
void check_attributes(const RankTrace& trace, const std::string& file);

// Throws InputError where protobuf was not built in.
void refuse_unless_built_in(const std::string& file);

// Chakra's number of a collective (CollectiveCommType). REQUIRES: it is one between GPUs.
[[nodiscard]] std::int64_t collective_number(CollectiveOp op);
// Nothing for a collective that we have no counterpart of (gather, scatter). A barrier is an
// all_reduce.
[[nodiscard]] std::optional<CollectiveOp> collective_of(std::int64_t number);
// "ALL_GATHER"; "type 12" for an unknown one.
[[nodiscard]] std::string collective_words(std::int64_t number);
inline constexpr std::int64_t kBarrier = 9;

// "0" and "" are the world in Chakra, so that ours count from 1.
[[nodiscard]] std::string group_name(GroupId group);

// Bytes that one of `members` ranks puts in. To an all_gather it adds its own part.
[[nodiscard]] std::int64_t input_bytes(const Call& call, std::size_t members);

// The kind that a description such as "DATA_PARALLEL_GROUP_WITH_CP" means; Other where it says
// none.
[[nodiscard]] GroupKind kind_of(const std::string& description);

}  // namespace trainyard::chakra
