// Replaces trace_file.cpp in a build without protobuf: every function throws InputError.
#include "sim/base/error.hpp"
#include "sim/chakra/trace_file.hpp"

namespace trainyard::chakra {

namespace {

[[noreturn]] void refuse(const std::string& file) {
  throw InputError(
      Problem{.file = file,
              .pointer = {},
              .problem = "Chakra traces need protobuf, without which this was built",
              .hint = "install libprotobuf-dev and protobuf-compiler, and build again"});
}

}  // namespace

RankTrace from_bytes(std::string_view /*bytes*/, const std::string& file) { refuse(file); }
std::string to_bytes(const RankTrace& /*trace*/) { refuse({}); }
void refuse_unless_built_in(const std::string& file) { refuse(file); }

}  // namespace trainyard::chakra
