// Files that a test writes for the program to read.
#pragma once

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace trainyard::test {

// Writes a file, with the folders above it, without waiting until it is on the disk, as
// write_file() does: thousands of small files would take most of the time of the tests. An old file
// is removed first, because ext4 waits for the disk as well where a file is made empty and written
// again.
inline void write_quickly(const std::filesystem::path& file, std::string_view contents) {
  std::filesystem::create_directories(file.parent_path());
  std::filesystem::remove(file);
  std::ofstream out(file, std::ios::binary);
  out << contents;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace trainyard::test
