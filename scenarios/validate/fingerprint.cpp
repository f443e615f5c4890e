#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "scenarios/validate/validation.hpp"
#include "sim/base/files.hpp"
#include "sim/engine/simgrid/solver_module.hpp"

namespace trainyard {

namespace {

namespace fs = std::filesystem;

// FNV-1a of 64 bits (G. Fowler, L. Noll, K. Vo; draft-eastlake-fnv): offset basis and prime.
constexpr std::uint64_t kBasis = 0xcbf29ce484222325ULL;

std::uint64_t mixed(std::uint64_t hash, std::string_view text) {
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * kPrime;
  }
  return hash;
}

std::set<fs::path> data_files(const fs::path& folder) {
  std::set<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".json") files.insert(entry->path());
  }
  return files;
}

std::string hexadecimal(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace

std::string text_fingerprint(std::string_view text) { return hexadecimal(mixed(kBasis, text)); }

std::string state_fingerprint(const fs::path& data) {
  std::uint64_t hash = kBasis;
  hash = mixed(hash, read_file("/proc/self/exe"));
  hash = mixed(hash, read_file(fluid_solver_file()));
  for (const char* folder : {"models", "kernels", "topologies"}) {
    for (const fs::path& file : data_files(data / folder)) {
      hash = mixed(hash, fs::relative(file, data).string());
      hash = mixed(hash, read_file(file));
    }
  }
  return hexadecimal(hash);
}

}  // namespace trainyard
