// The runs of a sweep: all combinations of values along axes, or a list, and the part of them that
// a shard runs.
//
//    const std::vector<Axis> axes = {axis_of({"parallelism.tensor=4,8"})};
//    std::vector<Variant> variants = grid("a.json", axes);                  // two of them
//    variants = shard_of(variants, shard_from("1/2"));                      // every second one
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/studies/batch/batch.hpp"

namespace trainyard {

// One dimension of the grid. At each of its points some fields have given values.
struct Axis {
  std::vector<std::string> paths;             // the fields that change along it
  std::vector<std::vector<Override>> points;  // one override for each path
};

// Parses "parallelism.tensor=2,4,8" as one axis with three points. Several such texts make one axis
// along which all fields change together, and must have equally many values. A comma within
// brackets, braces or quotes does not separate values. Throws InputError for a text that is not
// PATH=VALUE,VALUE,..., which names the option that gave it.
[[nodiscard]] Axis axis_of(const std::vector<std::string>& texts,
                           const std::string& option = "--over");

// The axes of each --over, and of --zip where there is one. Throws InputError for a field that is
// there twice, also as one of --set, because only one of its values would count.
[[nodiscard]] std::vector<Axis> axes_of(const std::vector<std::string>& over,
                                        const std::vector<std::string>& zip,
                                        const std::vector<std::string>& sets);

// Every combination; the last axis changes fastest. Without an axis it is the scenario itself.
[[nodiscard]] std::vector<Variant> grid(const std::string& file, std::span<const Axis> axes);

// One variant for each line "PATH=VALUE PATH=VALUE ...". Empty lines and lines that begin with '#'
// are skipped. `name` is the name of the file for messages.
[[nodiscard]] std::vector<Variant> listed(const std::string& file, const std::string& name,
                                          const std::string& text);

// The i-th of n parts, 1 <= i <= n: every n-th variant, so that the parts take about equally long.
struct Shard {
  std::size_t number = 1;
  std::size_t of = 1;
};
// Parses "2/8". Throws InputError for any other text.
[[nodiscard]] Shard shard_from(const std::string& text);
[[nodiscard]] std::vector<Variant> shard_of(const std::vector<Variant>& variants, Shard shard);

// Splits "PATH=VALUE" into its two parts. Throws InputError, which names the option that gave it.
[[nodiscard]] Override override_of(const std::string& text, const std::string& option = "--set");

}  // namespace trainyard
