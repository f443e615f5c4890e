#include "sim/base/program_file.hpp"

#include <sys/auxv.h>

#include <system_error>

namespace trainyard {

namespace fs = std::filesystem;

fs::path program_file() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) return program;
  // The path that was executed, as the kernel hands it to the program (getauxval(3)).
  const auto* const executed = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (executed == nullptr) return {};
  program = fs::canonical(executed, error);
  return error ? fs::path() : program;
}

}  // namespace trainyard
