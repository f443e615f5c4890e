// The runs of a sweep: all combinations of values along axes, or a list, and which part of it.
//
//   const std::vector<Axis> axes = {axis_of({"parallelism.tensor=4,8"})};
//   std::vector<Variant> variants = grid("a.json", axes);                  // two of them
//   variants = shard_of(variants, shard_from("1/2"));                      // the first half
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tools/studies/batch/batch.hpp"

namespace trainyard {

// A direction of the grid: at each point some fields have some values.
struct Axis {
  std::vector<std::string> paths;             // the fields that change along it
  std::vector<std::vector<Override>> points;  // one override for each path
};

// "parallelism.tensor=2,4,8" is one axis of three points. Several such texts are one axis along
// which all change together, and must have as many values each. A comma within brackets, braces or
// quotes separates nothing. Throws InputError for what is not PATH=VALUE,VALUE,...
[[nodiscard]] Axis axis_of(const std::vector<std::string>& texts);

// Every combination; the last axis changes fastest. No axis: the scenario itself.
[[nodiscard]] std::vector<Variant> grid(const std::string& file, std::span<const Axis> axes);

// One variant for each line "PATH=VALUE PATH=VALUE ..."; empty lines and lines that begin with '#'
// are none. `name` is the file's, for messages.
[[nodiscard]] std::vector<Variant> listed(const std::string& file, const std::string& name,
                                          const std::string& text);

// The i-th of n parts, 1 <= i <= n: every n-th variant, so that parts take alike long.
struct Shard {
  std::size_t number = 1;
  std::size_t of = 1;
};
// "2/8". Throws InputError for anything else.
[[nodiscard]] Shard shard_from(const std::string& text);
[[nodiscard]] std::vector<Variant> shard_of(const std::vector<Variant>& variants, Shard shard);

// "PATH=VALUE" in its two parts. Throws InputError.
[[nodiscard]] Override override_of(const std::string& text);

}  // namespace trainyard
