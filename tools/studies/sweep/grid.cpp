#include "tools/studies/sweep/grid.hpp"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <utility>

#include "scenarios/reader/overrides.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace {

[[noreturn]] void refuse(std::string file, std::string problem, std::string hint) {
  throw InputError(Problem{.file = std::move(file),
                           .pointer = {},
                           .problem = std::move(problem),
                           .hint = std::move(hint)});
}

// The parts of a text between separators that are outside brackets, braces and quotes.
std::vector<std::string> split_outside(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    const bool escaped = at > 0 && text[at - 1] == '\\';
    if (letter == '"' && !escaped) quoted = !quoted;
    if (!quoted && (letter == '[' || letter == '{')) ++depth;
    if (!quoted && (letter == ']' || letter == '}')) --depth;
    if (letter == separator && !quoted && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  return parts;
}

// The overrides of one line. A value may contain spaces: a word without "=" belongs to the value
// before it ("500 ns"). Brackets, braces and quotes keep a JSON value together.
std::vector<Override> overrides_of(const std::string& line, const std::string& place) {
  std::vector<std::string> texts;
  for (const std::string& word : split_outside(line, ' ')) {
    if (word.empty()) continue;
    if (split_outside(word, '=').size() > 1) {
      texts.push_back(word);
    } else if (!texts.empty()) {
      texts.back() += " " + word;
    } else {
      refuse(place, fmt::format("\"{}\" is not PATH=VALUE", word),
             "write for example parallelism.tensor=8 parallelism.data=4");
    }
  }
  std::vector<Override> changes;
  for (const std::string& text : texts) changes.push_back(override_of(text));
  return changes;
}

}  // namespace

Override override_of(const std::string& text, const std::string& option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse(option, fmt::format("\"{}\" is not PATH=VALUE", text),
           fmt::format("write for example {} parallelism.tensor=8", option));
  return {.path = text.substr(0, equals), .value = text.substr(equals + 1)};
}

// One text gives an axis of one field. Several texts give one axis whose fields change together
// (--zip).
Axis axis_of(const std::vector<std::string>& texts, const std::string& option) {
  Axis axis;
  for (const std::string& text : texts) {
    const Override all = override_of(text, option);
    const std::vector<std::string> values = split_outside(all.value, ',');
    for (const std::string& value : values) {
      if (value.empty())
        refuse(option, fmt::format("\"{}\" has an empty value", text),
               fmt::format("write for example {} parallelism.tensor=2,4,8", option));
    }
    if (axis.paths.empty()) axis.points.resize(values.size());
    if (values.size() != axis.points.size()) {
      refuse("--zip",
             fmt::format("{} has {} values and {} has {}", axis.paths.front(), axis.points.size(),
                         all.path, values.size()),
             "fields that change together need as many values each");
    }
    axis.paths.push_back(all.path);
    for (std::size_t i = 0; i < values.size(); ++i)
      axis.points[i].push_back({.path = all.path, .value = values[i]});
  }
  return axis;
}

std::vector<Axis> axes_of(const std::vector<std::string>& over, const std::vector<std::string>& zip,
                          const std::vector<std::string>& sets) {
  std::vector<Axis> axes;
  for (const std::string& text : over) axes.push_back(axis_of({text}));
  if (!zip.empty()) axes.push_back(axis_of(zip, "--zip"));
  std::set<std::string> fields;
  for (const Axis& axis : axes)
    for (const std::string& path : axis.paths)
      if (!fields.insert(override_pointer(path)).second)
        refuse("--over", fmt::format("{} is there twice", path),
               fmt::format("give all values at once: --over {}=1,2", path));
  for (const std::string& set : sets)
    if (const std::string path = override_of(set).path; fields.contains(override_pointer(path)))
      refuse("--set", fmt::format("{} has the values of --over", path), "leave it out");
  return axes;
}

// The Cartesian product of the axes. The values of the last axis change fastest.
std::vector<Variant> grid(const std::string& file, std::span<const Axis> axes) {
  std::vector<Variant> variants{{.file = file}};
  for (const Axis& axis : axes) {
    std::vector<Variant> longer;
    longer.reserve(variants.size() * axis.points.size());
    for (const Variant& variant : variants) {
      for (const std::vector<Override>& point : axis.points) {
        Variant& next = longer.emplace_back(variant);
        next.changes.insert(next.changes.end(), point.begin(), point.end());
      }
    }
    variants = std::move(longer);
  }
  return variants;
}

// One variant per line. Empty lines and lines that begin with "#" are skipped.
std::vector<Variant> listed(const std::string& file, const std::string& name,
                            const std::string& text) {
  std::vector<Variant> variants;
  std::size_t number = 0;
  for (const std::string& line : split_outside(text, '\n')) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::size_t end = line.find_last_not_of(" \t\r");
    variants.push_back({.file = file,
                        .changes = overrides_of(line.substr(begin, end - begin + 1),
                                                fmt::format("{}:{}", name, number))});
  }
  if (variants.empty()) refuse(name, "names no run", "write one line of PATH=VALUE for each run");
  return variants;
}

Shard shard_from(const std::string& text) {
  Shard shard;
  const std::size_t slash = std::min(text.find('/'), text.size());
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto number = std::from_chars(begin, begin + slash, shard.number);
  const bool first = number.ec == std::errc{} && number.ptr == begin + slash && slash < text.size();
  const auto of = first ? std::from_chars(begin + slash + 1, end, shard.of)
                        : std::from_chars_result{end, std::errc::invalid_argument};
  if (of.ec != std::errc{} || of.ptr != end || shard.number < 1 || shard.number > shard.of) {
    refuse("--shard", fmt::format("\"{}\" is not a part of a whole", text),
           "write --shard 1/4 for the first of four");
  }
  return shard;
}

// Takes every n-th variant, so that neighbouring variants are in different shards.
std::vector<Variant> shard_of(const std::vector<Variant>& variants, Shard shard) {
  std::vector<Variant> part;
  for (std::size_t i = shard.number - 1; i < variants.size(); i += shard.of)
    part.push_back(variants[i]);
  return part;
}

}  // namespace trainyard
