// Kinds of fields that descriptions of hardware and of jobs on it share, for entries of tables
// (sim/base/field.hpp).
//
//    {"radix", "ports of a switch", count<&FatTree::radix, 2>()},
//    {"hop_latency", "of one cable", time<&FatTree::hop_latency>()},
//
// A description leaves out hardware that does not exist: zero is no valid capacity of a wire and no
// valid memory of a GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/base/field.hpp"
#include "sim/base/json_reader.hpp"
#include "topologies/topology.hpp"

namespace trainyard {

// The limit of parts of one kind in a node, and of ports of a switch.
inline constexpr std::int64_t kPartsMost = 65536;

template <auto member>
struct MemberOf;
template <class Class, class Value, Value Class::*member>
struct MemberOf<member> {
  using Owner = Class;
};
template <auto member>
using OwnerOf = typename MemberOf<member>::Owner;

// A field that is left out keeps the member's default, or is reported.
enum class Absent : bool { Default, Reported };

// A field that holds a number of parts.
template <auto member, std::int64_t least = 1, Absent absent = Absent::Default,
          std::int64_t most = kPartsMost>
constexpr Own<OwnerOf<member>> count() {
  using Owner = OwnerOf<member>;
  return {[](JsonObject& object, std::string_view key, Owner& owner) {
            IntegerRule rule{.least = least, .most = most};
            if (absent == Absent::Default) rule.fallback = owner.*member;
            owner.*member = static_cast<std::uint32_t>(object.integer(key, rule));
          },
          [](const Owner& owner) { return nlohmann::ordered_json(owner.*member); },
          [](const Owner& defaults) {
            nlohmann::ordered_json json{{"type", "integer"}, {"minimum", least}, {"maximum", most}};
            // A zero that stands for an absent number is out of range, so it is no default.
            if (absent == Absent::Default && defaults.*member >= least)
              json["default"] = defaults.*member;
            return json;
          },
          absent == Absent::Reported};
}

// A field that holds a quantity with its unit, of the type of the member.
template <auto member, auto read, auto pattern, Absent absent>
constexpr Own<OwnerOf<member>> quantity() {
  using Owner = OwnerOf<member>;
  return {[](JsonObject& object, std::string_view key, Owner& owner) {
            owner.*member = absent == Absent::Default ? (object.*read)(key, owner.*member)
                                                      : (object.*read)(key, std::nullopt);
          },
          [](const Owner& owner) { return nlohmann::ordered_json(exact_text(owner.*member)); },
          [](const Owner& defaults) {
            nlohmann::ordered_json json{{"type", "string"}, {"pattern", pattern()}};
            if (absent == Absent::Default) json["default"] = exact_text(defaults.*member);
            return json;
          },
          absent == Absent::Reported};
}

// A field that holds a time.
template <auto member, Absent absent = Absent::Default>
constexpr Own<OwnerOf<member>> time() {
  return quantity<member, &JsonObject::time, time_pattern, absent>();
}

// A field that holds a number of bytes.
template <auto member, Absent absent = Absent::Default>
constexpr Own<OwnerOf<member>> bytes() {
  return quantity<member, &JsonObject::bytes, bytes_pattern, absent>();
}

// Reads the "collective_latency" object: launch, intra_step, inter_step.
[[nodiscard]] CollectiveLatency read_latency(JsonObject object);
[[nodiscard]] nlohmann::ordered_json to_json(const CollectiveLatency& latency);

// Reads a rate as JsonObject::rate() does, and reports a zero with the remedy.
[[nodiscard]] BytesPerSecond positive_rate(JsonObject& object, std::string_view key,
                                           std::string_view remedy,
                                           std::optional<BytesPerSecond> fallback = {});
// Reads a size as JsonObject::bytes() does, and reports a zero, which would mean unknown memory.
[[nodiscard]] Bytes gpu_memory(JsonObject& object, std::string_view key,
                               std::optional<Bytes> fallback = {});

// Reads the sizes of the dimensions of a torus: [4, 4, 2]. Returns an empty list, after a report,
// where the value is not such a list.
[[nodiscard]] std::vector<std::uint32_t> read_dims(JsonObject& object, std::string_view key);

// Reads a list such as [2, 3]; `what` names the numbered things in the message.
[[nodiscard]] std::vector<std::uint32_t> read_numbers(JsonObject& object, std::string_view key,
                                                      std::string_view what);

}  // namespace trainyard
