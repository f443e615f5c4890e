// Choice and WordList fields (field.hpp) for enumerations, flags and registries.
//
//    static constexpr Words<Reshard, 3> kReshard{
//        {{Reshard::Auto, "auto"}, {Reshard::Always, "always"}, {Reshard::Never, "never"}}};
//    word_of<Parallelism, &Parallelism::reshard_after_forward, kReshard>();
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/field.hpp"

namespace trainyard {

// The words of an enumeration, in the order in which messages list them.
template <class Enum, std::size_t count>
using Words = std::array<std::pair<Enum, std::string_view>, count>;

template <class Enum, std::size_t count>
constexpr std::string_view word_for(const Words<Enum, count>& words, Enum value) {
  for (const auto& [known, word] : words)
    if (known == value) return word;
  return {};
}

template <class Enum, std::size_t count>
constexpr std::optional<Enum> value_of(const Words<Enum, count>& words, std::string_view said) {
  for (const auto& [value, word] : words)
    if (word == said) return value;
  return std::nullopt;
}

template <const auto& words>
std::vector<std::string> all_words() {
  std::vector<std::string> all;
  for (const auto& [value, word] : words) all.emplace_back(word);
  return all;
}

// Returns a Choice among the words of an enumeration.
template <class Owner, auto member, const auto& words>
constexpr Choice<Owner> word_of(bool required = false) {
  return {.choices = all_words<words>,
          .get = [](const Owner& owner) { return std::string(word_for(words, owner.*member)); },
          .set =
              [](Owner& owner, const std::string& chosen) {
                owner.*member = value_of(words, chosen).value_or(owner.*member);
              },
          .required = required};
}

// Returns a structure whose flags are true if their word is in `chosen`.
template <class Flags, std::size_t count>
Flags flags_of(const Words<bool Flags::*, count>& words, const std::vector<std::string>& chosen) {
  Flags flags;
  for (const auto& [flag, word] : words)
    flags.*flag = std::find(chosen.begin(), chosen.end(), word) != chosen.end();
  return flags;
}

// Returns a WordList of the words of a structure's flags.
template <class Owner, auto member, const auto& words>
constexpr WordList<Owner> words_of(std::string_view unknown) {
  return {.choices = all_words<words>,
          .get =
              [](const Owner& owner) {
                std::vector<std::string> chosen;
                for (const auto& [flag, word] : words)
                  if (owner.*member.*flag) chosen.emplace_back(word);
                return chosen;
              },
          .set =
              [](Owner& owner, const std::vector<std::string>& chosen) {
                owner.*member = flags_of(words, chosen);
              },
          .unknown = unknown};
}

// Returns a Choice among the names of a registry.
template <class Owner, auto member, auto names>
constexpr Choice<Owner> name_of() {
  return {.choices = names,
          .get = [](const Owner& owner) { return owner.*member; },
          .set = [](Owner& owner, const std::string& chosen) { owner.*member = chosen; }};
}

template <class Owner, auto member, auto names>
constexpr Choice<Owner> name_or_file() {
  Choice<Owner> choice = name_of<Owner, member, names>();
  choice.or_file = true;
  return choice;
}

}  // namespace trainyard
