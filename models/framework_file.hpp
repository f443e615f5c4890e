// A framework's file, with what it leaves to the one that it is like.
//
//   {"title": "Megatron-Core of 2023", "like": "megatron", "kernel_time": {...}}
//
// has all that megatron.json has, but for what it says itself, down to single figures (a JSON merge
// patch, RFC 7386: null takes something away).
#pragma once

#include <string>

#include "sim/base/json_reader.hpp"

namespace trainyard {

// By name from models/frameworks, or a path. Throws InputError: no such file, no JSON, a "like"
// that is no name of a framework or names one that is like another itself.
[[nodiscard]] JsonFile framework_file(const std::string& name);

}  // namespace trainyard
