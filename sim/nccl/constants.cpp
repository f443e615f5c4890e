#include "sim/nccl/constants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "sim/base/data_directory.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/words.hpp"

namespace trainyard::nccl {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kConstantsFolder = "sim/nccl/data";
constexpr std::string_view kPrefix = "tuning_";

constexpr std::array<std::string_view, kAlgorithms.size()> kAlgorithmKeys{
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array<std::string_view, kGenerations> kGenerationKeys{"volta", "ampere", "hopper",
                                                                     "blackwell"};
constexpr std::array<std::string_view, kProtocols.size()> kProtocolKeys{"ll", "ll128", "simple"};
constexpr Words<NvlsRate, 5> kNvlsRates{
    {{NvlsRate::Graph, "graph"},
     {NvlsRate::FiveSixths, "five_sixths"},
     {NvlsRate::FiveSixthsReduce, "five_sixths_reduce"},
     {NvlsRate::FiveSixthsGatherLessOwn, "five_sixths_gather_less_own"},
     {NvlsRate::Efficiency, "efficiency"}}};

constexpr Words<PeerChannels, 2> kPeerChannels{
    {{PeerChannels::Two, "two"}, {PeerChannels::ByRate, "by_rate"}}};

// The numbers under a key. Reports a problem unless there are exactly `count` (0: any number except
// none).
std::vector<double> numbers(JsonObject& object, std::string_view key, std::size_t count) {
  const Json& value = object.raw(key);
  std::vector<double> result;
  if (value.is_array())
    for (const Json& item : value)
      if (item.is_number()) result.push_back(item.get<double>());
  const bool whole = value.is_array() && result.size() == value.size() && !result.empty();
  if (whole && (count == 0 || result.size() == count)) return result;
  object.report(key, fmt::format("must be a list of {} numbers",
                                 count == 0 ? "some" : std::to_string(count)));
  return std::vector<double>(std::max<std::size_t>(count, 1), 0.0);
}

std::array<double, 3> three(JsonObject& object, std::string_view key) {
  const std::vector<double> values = numbers(object, key, 3);
  return {values[0], values[1], values[2]};
}

// Reads microseconds: one line per algorithm, one column per protocol (LL, LL128, Simple).
LatencyTable latencies(JsonObject object) {
  LatencyTable table{};
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) table[i] = three(object, kAlgorithmKeys[i]);
  return table;
}

// Reads GB/s: one line per GPU generation, with columns for one node, two nodes and more.
RateTable rates(JsonObject object) {
  RateTable table{};
  for (std::size_t i = 0; i < kGenerations; ++i) table[i] = three(object, kGenerationKeys[i]);
  return table;
}

// Reads the rules that differ between releases of NCCL. Each field selects a branch in tuning.cpp.
TuningRules rules(JsonObject object) {
  TuningRules rules;
  rules.ring_ll_share = object.number("ring_ll_share");
  rules.ring_ll_share_gather_one_node = object.number("ring_ll_share_gather_one_node");
  rules.ring_ll128_share_one_rank_per_node = object.number("ring_ll128_share_one_rank_per_node");
  rules.inter_steps_per_node =
      object.choice("inter_steps", {"two_per_other_node", "two_per_node"}) == "two_per_node";
  rules.nvls_rate = value_of(kNvlsRates, object.choice("nvls_rate", all_words<kNvlsRates>()))
                        .value_or(rules.nvls_rate);
  rules.nvls_gathers = object.boolean("nvls_gathers");
  rules.nvls_tree_levels_are_nodes =
      object.choice("nvls_tree_levels", {"log2", "nodes"}) == "nodes";
  rules.nvls_tree_corrected = object.boolean("nvls_tree_corrected");
  rules.pat = object.boolean("pat");
  rules.lone_rank_takes_tree_latency = object.boolean("lone_rank_takes_tree_latency");
  rules.ll128_newest_sm =
      static_cast<std::uint32_t>(object.integer("ll128_newest_sm", {.least = 0, .most = 9999}));
  rules.bytes_per_channel_least = object.number("bytes_per_channel_least", {.least = 0.0});
  rules.remote_peer =
      value_of(kPeerChannels, object.choice("channels_of_remote_peer", all_words<kPeerChannels>()))
          .value_or(rules.remote_peer);
  return rules;
}

// Reads one tuning_<version>.json. Every constant is required, so that the file of a new release
// cannot omit one.
TuningConstants read(const std::filesystem::path& path) {
  JsonFile file = JsonFile::read(path);
  JsonObject root = file.root();
  root.ignore("description");
  root.ignore("source");
  TuningConstants made;
  made.version = root.text("version");
  made.base_latency_us = latencies(root.object("base_latency_us"));
  JsonObject steps = root.object("step_latency_us");
  made.step_latency_us = {latencies(steps.object("nvlink")), latencies(steps.object("pcie")),
                          latencies(steps.object("network"))};
  made.ll_rate = rates(root.object("ll_rate"));
  JsonObject caps = root.object("channel_caps");
  made.ring_ll128_cap = rates(caps.object("ring_ll128"));
  made.tree_ll128_cap = rates(caps.object("tree_ll128"));
  made.tree_cap = rates(caps.object("tree"));
  made.nvls_tree_cap = rates(caps.object("nvls_tree"));
  JsonObject efficiency = root.object("nvls_efficiency");
  for (std::size_t i = 0; i < kGenerations; ++i)
    made.nvls_efficiency[i] = efficiency.number(kGenerationKeys[i]);
  JsonObject correction = root.object("tree_correction");
  for (std::size_t i = 0; i < kProtocols.size(); ++i)
    made.tree_correction[i] = numbers(correction, kProtocolKeys[i], 0);
  made.rules = rules(root.object("rules"));
  file.finish();
  return made;
}

// Major and minor number of "2.27", "2.27.3" or "v2.27.3-1".
std::optional<std::pair<int, int>> release(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  std::pair<int, int> parts{0, 0};
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return {};
  const auto number = [](std::string_view digits) {
    int value = -1;
    // Four digits are enough for a release, and they fit an int.
    for (const char digit : digits.substr(0, 4)) {
      if (digit < '0' || digit > '9') break;
      value = std::max(value, 0) * 10 + (digit - '0');
    }
    return value;
  };
  parts = {number(text.substr(0, dot)), number(text.substr(dot + 1))};
  if (parts.first < 0 || parts.second < 0) return {};
  return parts;
}

}  // namespace

std::vector<std::string> tuning_versions() {
  // Listing a folder is cached, because every choice of an algorithm asks for the versions.
  const auto read = [](const std::filesystem::path& folder) {
    std::vector<std::string> versions;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().stem().string();
      if (entry.path().extension() == ".json" && name.starts_with(kPrefix))
        versions.push_back(name.substr(kPrefix.size()));
    }
    return versions;
  };
  std::set<std::string> versions;
  for (const std::filesystem::path& root : data_roots()) {
    const std::filesystem::path folder = root / kConstantsFolder;
    if (!std::filesystem::is_directory(folder)) continue;
    const auto& found = read_once<std::vector<std::string>>(folder, read);
    versions.insert(found.begin(), found.end());
  }
  std::vector<std::string> sorted(versions.begin(), versions.end());
  // Sorts by number, because the text "2.9" would follow "2.27".
  std::ranges::sort(sorted, {}, release);
  return sorted;
}

std::string data_version(const std::string& version) {
  const std::vector<std::string> known = tuning_versions();
  const std::string hint = fmt::format(
      "known: {}; a version between two of them uses the older one", fmt::join(known, ", "));
  const auto wanted = release(version);
  if (!wanted)
    throw InputError({"", "", fmt::format("\"{}\" is no version of NCCL", version), hint});
  const std::string* best = nullptr;
  // `known` ascends, so the last match is the newest release that is not newer than the wanted one.
  for (const std::string& candidate : known)
    if (release(candidate) <= wanted) best = &candidate;
  if (best == nullptr || release(known.back()) < wanted)
    throw InputError({"", "", fmt::format("there is no data for NCCL {}", version), hint});
  return *best;
}

TuningConstants tuning_constants(const std::string& version) {
  const auto file = data_file(kConstantsFolder, std::string(kPrefix) + data_version(version));
  return read_once<TuningConstants>(file, read);
}

}  // namespace trainyard::nccl
