#include "tools/studies/batch/fingerprint.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/engine/simgrid/solver_module.hpp"

namespace trainyard {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// FNV-1a of 64 bits (G. Fowler, L. Noll, K. Vo; draft-eastlake-fnv): offset basis and prime. It
// guards against accidental changes, not against an attacker.
class Hash {
 public:
  void add(std::string_view text) {
    constexpr std::uint64_t kPrime = 0x100000001b3ULL;
    for (const char letter : text) hash_ = (hash_ ^ static_cast<unsigned char>(letter)) * kPrime;
  }
  [[nodiscard]] std::string hexadecimal() const { return fmt::format("{:016x}", hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

std::set<fs::path> data_files(const fs::path& folder) {
  std::set<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".json") files.insert(entry->path());
  }
  return files;
}

// Adds the contents of every file that a document names to a hash, each file once. Every string of
// the document that is the path of an existing file counts as a name, and JSON files are searched
// recursively.
class NamedFiles {
 public:
  explicit NamedFiles(Hash& hash) : hash_(hash) {}

  void add_named_in(const Json& value, const fs::path& folder) {
    if (value.is_string()) {
      const auto& name = value.get_ref<const std::string&>();
      for (const fs::path& file : {folder / name, fs::path(name)})
        if (is_file(file)) add(file);
    }
    if (value.is_structured())
      for (const Json& item : value) add_named_in(item, folder);
  }

 private:
  static bool is_file(const fs::path& file) {
    std::error_code error;  // a string that is too long for a file name is an error, not a file
    return fs::is_regular_file(file, error);
  }

  void add(const fs::path& file) {
    std::error_code error;
    const fs::path known = fs::weakly_canonical(file, error);
    if (!added_.insert(error ? file : known).second) return;
    try {
      const std::string text = read_file(file);
      hash_.add(file.string());
      hash_.add(text);
      if (file.extension() == ".json")
        add_named_in(parse_json(file.string(), text), file.parent_path());
    } catch (const InputError& refused) {  // the run reports the same error
      hash_.add(refused.what());
    }
  }

  Hash& hash_;
  std::set<fs::path> added_;
};

}  // namespace

std::string text_fingerprint(std::string_view text) {
  Hash hash;
  hash.add(text);
  return hash.hexadecimal();
}

std::string state_fingerprint(const std::vector<fs::path>& roots) {
  Hash hash;
  hash.add(read_file(code_file()));
  hash.add(read_file(fluid_solver_file()));
  // The shipped data is the last root. Counted from the end it is always number 1, so a user's
  // folder without such files does not change the fingerprint.
  for (std::size_t root = 0; root < roots.size(); ++root) {
    for (const std::string_view folder : data_folders()) {
      for (const fs::path& file : data_files(roots[root] / folder)) {
        hash.add(
            fmt::format("{} {}", roots.size() - root, fs::relative(file, roots[root]).string()));
        hash.add(read_file(file));
      }
    }
  }
  return hash.hexadecimal();
}

std::string document_fingerprint(const std::string& state, const Json& document,
                                 const fs::path& folder) {
  Hash hash;
  hash.add(state);
  hash.add(document.dump());
  NamedFiles(hash).add_named_in(document, folder);
  return hash.hexadecimal();
}

}  // namespace trainyard
