// Whole files in and out. An interrupted run leaves the old file or none, never half of one
// (sim/base/new_file.hpp).
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace trainyard {

// Throws InputError when the file cannot be read. Decompresses a name that ends in ".gz".
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

// Creates missing folders. Compresses when the name ends in ".gz" (with no time stamp inside, so
// equal contents give equal bytes). Throws InputError when the place cannot be written.
void write_file(const std::filesystem::path& file, std::string_view contents);

}  // namespace trainyard
