// A valid scenario file as a document to change, and the errors of the reader for changed ones.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "sim/base/error.hpp"
#include "sim/base/json_parse.hpp"
#include "tests/quick_file.hpp"

namespace trainyard {

// GPT-3 175B on 8 nodes: TP 8, PP 4, DP 2, 32 microbatches.
inline nlohmann::ordered_json sample() {
  return parse_unchecked_json(R"({
    "description": "a sample",
    "model": "gpt3-175b",
    "cluster": { "node": "dgx_a100_80gb", "nodes": 8, "fabric": { "kind": "rail_optimized" } },
    "parallelism": { "tensor": 8, "sequence_parallel": true, "pipeline": 4, "data": 2 },
    "training": { "sequence_length": 2048, "global_batch_size": 64, "precision": "fp16" }
  })");
}

// A folder for the files of one test, which is removed with it.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("trainyard_scenario_" + std::to_string(getpid()) + "_" + std::to_string(++made_))) {
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string write(const std::string& name, const std::string& contents) const {
    const std::filesystem::path file = path_ / name;
    test::write_quickly(file, contents);
    return file.string();
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  static inline int made_ = 0;
  std::filesystem::path path_;
};

inline Scenario load(const nlohmann::ordered_json& document,
                     const std::vector<Override>& changes = {}) {
  const TemporaryFolder folder;
  return load_scenario(folder.write("s.json", document.dump()), changes);
}

// The problems without the name of the file, one per line. The result is empty if there is none.
inline std::string complaints(const nlohmann::ordered_json& document,
                              const std::vector<Override>& changes = {}) {
  try {
    (void)load(document, changes);
    return "";
  } catch (const InputError& error) {
    std::string text;
    for (Problem problem : error.problems()) {
      if (!problem.file.starts_with("--set")) problem.file.clear();
      text += (text.empty() ? "" : "\n") + to_text(problem);
    }
    return text;
  }
}

}  // namespace trainyard
