#include "sim/nccl/spread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <type_traits>

#include "sim/base/check.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/units.hpp"

namespace trainyard::nccl {

namespace {

constexpr std::int64_t kMostCalls = 1'000'000'000;

CallSpread read_class(JsonObject row) {
  CallSpread spread;
  const auto limit = [&row](const char* key, auto& value) {
    if (row.has(key))
      value = static_cast<std::remove_reference_t<decltype(value)>>(row.integer(key, {.least = 0}));
  };
  limit("nodes_least", spread.nodes_least);
  limit("nodes_most", spread.nodes_most);
  limit("bytes_least", spread.bytes_least);
  limit("bytes_most", spread.bytes_most);
  spread.low = row.number("low", {.least = 0.01, .most = 1.0});
  spread.high = row.number("high", {.least = 1.0, .most = 100.0});
  spread.calls = static_cast<std::uint32_t>(row.integer("calls", {.least = 1, .most = kMostCalls}));
  spread.clusters =
      static_cast<std::uint32_t>(row.integer("clusters", {.least = 1, .most = kMostCalls}));
  spread.inside = row.number("inside", {.least = 0.0, .most = 1.0});
  return spread;
}

std::vector<CallSpread> read_spreads(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  for (const char* note : {"description", "source", "command"}) root.ignore(note);
  std::vector<CallSpread> classes;
  for (const JsonObject& row : root.objects("classes")) classes.push_back(read_class(row));
  file.finish();
  return classes;
}

std::string text_of(std::int64_t bytes) { return to_text(Bytes{static_cast<double>(bytes)}); }

}  // namespace

const std::vector<CallSpread>& spreads() {
  return read_once<std::vector<CallSpread>>(data_file("sim/nccl/data", "spread"), read_spreads);
}

const CallSpread& spread_of(std::uint32_t nodes, std::int64_t bytes) {
  const auto found = std::ranges::find_if(
      spreads(), [&](const CallSpread& spread) { return spread.holds(nodes, bytes); });
  TY_CHECK(found != spreads().end(), nodes, bytes);
  return *found;
}

std::string calls_of(const CallSpread& spread) {
  constexpr CallSpread kAll;
  const std::string size =
      spread.bytes_most == kAll.bytes_most
          ? (spread.bytes_least == 0 ? "any size" : text_of(spread.bytes_least) + " and more")
          : "less than " + text_of(spread.bytes_most + 1);
  const std::string nodes =
      spread.nodes_most == 1 ? "one node"
      : spread.nodes_most == kAll.nodes_most
          ? fmt::format("{} nodes and more", spread.nodes_least)
          : fmt::format("{} to {} nodes", spread.nodes_least, spread.nodes_most);
  return fmt::format("{} on {}", size, nodes);
}

}  // namespace trainyard::nccl
