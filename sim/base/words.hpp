// Choices between the words of an enumeration, for rows of tables (field.hpp).
//
//   constexpr Words<Reshard, 2> kReshard{{{Reshard::Auto, "auto"}, {Reshard::Never, "never"}}};
//   word_of<Parallelism, &Parallelism::reshard_after_forward, kReshard>()
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/field.hpp"

namespace trainyard {

// The words of an enumeration, in the order in which they are offered.
template <class Enum, std::size_t count>
using Words = std::array<std::pair<Enum, std::string_view>, count>;

template <class Enum, std::size_t count>
constexpr std::string_view word_for(const Words<Enum, count>& words, Enum value) {
  for (const auto& [known, word] : words)
    if (known == value) return word;
  return {};
}

template <const auto& words>
std::vector<std::string> all_words() {
  std::vector<std::string> all;
  for (const auto& [value, word] : words) all.emplace_back(word);
  return all;
}

// A Choice between the words of an enumeration.
template <class Owner, auto member, const auto& words>
constexpr Choice<Owner> word_of() {
  return {.choices = all_words<words>,
          .get = [](const Owner& owner) { return std::string(word_for(words, owner.*member)); },
          .set =
              [](Owner& owner, const std::string& chosen) {
                for (const auto& [value, word] : words) {
                  if (word == chosen) owner.*member = value;
                }
              }};
}

// A Choice between the names of a registry.
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
