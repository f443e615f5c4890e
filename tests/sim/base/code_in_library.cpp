// A shared library that says which file it finds its own code in.
#include <string>

#include "sim/base/data_directory.hpp"

extern "C" [[gnu::visibility("default")]] const char* trainyard_code_file() {
  static const std::string kFile = trainyard::code_file();
  return kFile.c_str();
}
