#include "sim/nccl/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/letters.hpp"
#include "sim/nccl/constants.hpp"

namespace trainyard::nccl {

std::string_view to_string(Algorithm algorithm) {
  constexpr std::array<std::string_view, kAlgorithms.size()> kNames{
      "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
  return kNames.at(static_cast<std::size_t>(algorithm));
}

std::string_view to_string(Protocol protocol) {
  constexpr std::array<std::string_view, kProtocols.size()> kNames{"LL", "LL128", "Simple"};
  return kNames.at(static_cast<std::size_t>(protocol));
}

double wire_efficiency(Protocol protocol) {
  constexpr std::array kShares{0.5, 120.0 / 128.0, 1.0};
  return kShares.at(static_cast<std::size_t>(protocol));
}

Generation generation_of(std::uint32_t compute_capability) {
  if (compute_capability >= 100) return Generation::Blackwell;
  if (compute_capability >= 90) return Generation::Hopper;
  return compute_capability >= 80 ? Generation::Ampere : Generation::Volta;
}

std::string_view to_string(PathType type) {
  constexpr std::array<std::string_view, 12> kNames{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                                    "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  return kNames.at(static_cast<std::size_t>(type));
}

namespace {

constexpr std::array<std::string_view, kOperations> kOperationNames{
    "allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall", "sendrecv"};

// Removes spaces and case, so that names compare equal however the user writes them.
std::string comparable(std::string_view text) {
  std::string made = lower_case(text);
  std::erase(made, ' ');
  return made;
}

// The parts between the marks, without empty ones.
std::vector<std::string> parts_of(const std::string& text, char mark) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (letter == mark)
      parts.emplace_back();
    else
      parts.back() += letter;
  }
  std::erase(parts, "");
  return parts;
}

std::size_t index_of(const std::string& word, const std::vector<std::string>& names,
                     const char* variable) {
  const auto found = std::find(names.begin(), names.end(), word);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  throw InputError({"", "",
                    fmt::format("{} names \"{}\", which NCCL does not know", variable, word),
                    fmt::format("known: {}", fmt::join(names, ", "))});
}

// Parses the text in its order. Calls set(operation, index of a name, allowed) for every name of
// each operation that an entry covers.
// An entry is [operation:][^]name,name. "^" allows all names except the listed ones, and a later
// entry overrides an earlier one.
template <class Set>
void parse(const std::string& text, const std::vector<std::string>& names, const char* variable,
           Set set) {
  const std::vector<std::string> operations(kOperationNames.begin(), kOperationNames.end());
  for (const std::string& entry : parts_of(comparable(text), ';')) {
    std::vector<std::string> sides = parts_of(entry, ':');
    if (sides.empty()) continue;
    std::string list = sides.back();
    const bool excludes = list.starts_with('^');
    if (excludes) list.erase(0, 1);
    std::vector<bool> listed(names.size(), false);
    for (const std::string& word : parts_of(list, ','))
      listed[index_of(word, names, variable)] = true;
    const bool prefixed = sides.size() > 1;
    const std::size_t only = prefixed ? index_of(sides.front(), operations, variable) : 0;
    for (std::size_t op = 0; op < kOperations; ++op) {
      if (prefixed && op != only) continue;
      for (std::size_t i = 0; i < names.size(); ++i) set(op, i, listed[i] != excludes);
    }
  }
}

template <class Values>
std::vector<std::string> names_of(const Values& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.push_back(comparable(to_string(value)));
  return names;
}

}  // namespace

AlgorithmMask all_algorithms() {
  AlgorithmMask mask{};
  for (auto& row : mask) row.fill(true);
  return mask;
}

// LL128 depends on the hardware by default (ll128_by_default in tuning.cpp).
ProtocolMask default_protocols() {
  ProtocolMask mask{};
  for (auto& row : mask) row = {Allowed::Yes, Allowed::ByDefault, Allowed::Yes};
  return mask;
}

Options options_of(const Settings& settings) {
  Options options;
  std::vector<Problem> problems;
  // Collects the problems of all settings, each with the pointer of its setting, instead of
  // stopping at the first one.
  const auto take = [&problems](const char* pointer, const auto& set) {
    try {
      set();
    } catch (const InputError& error) {
      for (Problem problem : error.problems()) {
        problem.pointer = pointer;
        problems.push_back(std::move(problem));
      }
    }
  };
  take("/version", [&] {
    (void)data_version(settings.version);
    options.version = settings.version;
  });
  take("/algo", [&] { options.algorithms = parse_algorithms(settings.algo); });
  take("/proto", [&] { options.protocols = parse_protocols(settings.proto); });
  const std::int64_t least = settings.min_channels.value_or(1);
  if (settings.max_channels && *settings.max_channels < least)
    problems.push_back(
        {"", "/max_channels",
         fmt::format("must be at least min_channels, {}, not {}", least, *settings.max_channels),
         "leave one of them out"});
  if (!problems.empty()) throw InputError(std::move(problems));
  if (settings.min_channels) options.channels_least = static_cast<std::uint32_t>(least);
  if (settings.max_channels)
    options.channels_most = static_cast<std::uint32_t>(*settings.max_channels);
  return options;
}

AlgorithmMask parse_algorithms(const std::string& text) {
  AlgorithmMask mask = all_algorithms();
  parse(text, names_of(kAlgorithms), "NCCL_ALGO",
        [&](std::size_t op, std::size_t i, bool listed) { mask[op][i] = listed; });
  return mask;
}

ProtocolMask parse_protocols(const std::string& text) {
  ProtocolMask mask = default_protocols();
  parse(text, names_of(kProtocols), "NCCL_PROTO", [&](std::size_t op, std::size_t i, bool listed) {
    mask[op][i] = listed ? Allowed::Yes : Allowed::No;
  });
  return mask;
}

}  // namespace trainyard::nccl
