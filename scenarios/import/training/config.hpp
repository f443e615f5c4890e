// Typed access to the values of a configuration by their paths. It records which values were read,
// so that an importer can list those that it did not look at.
//
//    Config config(read_config(text, "train.toml"));
//    config.need("training.seq_len");              // 8192, or an InputError that names the line
//    config.get("parallelism.tensor_parallel_degree", 1);
//    config.not_looked_at(kWithoutCost);           // {"training.steps_per_epoch"}
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/training/config_document.hpp"

namespace trainyard {

class Config {
 public:
  explicit Config(ConfigDocument document) : document_(std::move(document)) {}

  // Return a value by its path; nothing where it is absent, null or "???" (OmegaConf's missing
  // value). Throw InputError where the value does not have the requested type.
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& path);
  [[nodiscard]] std::optional<double> number(const std::string& path);
  [[nodiscard]] std::optional<std::string> text(const std::string& path);
  [[nodiscard]] std::optional<bool> flag(const std::string& path);
  // Returns the texts of a list, or a single text.
  [[nodiscard]] std::vector<std::string> texts(const std::string& path);
  // Returns the value as it is, and marks everything in it as read; null where it is absent.
  [[nodiscard]] nlohmann::ordered_json raw(const std::string& path);

  [[nodiscard]] std::int64_t get(const std::string& path, std::int64_t fallback) {
    return integer(path).value_or(fallback);
  }
  [[nodiscard]] bool on(const std::string& path, bool fallback = false) {
    return flag(path).value_or(fallback);
  }
  [[nodiscard]] std::string word(const std::string& path, const std::string& fallback) {
    return text(path).value_or(fallback);
  }
  // Throws InputError where the value is missing.
  [[nodiscard]] std::int64_t need(const std::string& path);
  // Returns a size; throws InputError where it is not at least 1.
  [[nodiscard]] std::int64_t size(const std::string& path, std::int64_t fallback);

  [[nodiscard]] bool has(const std::string& path) const { return find(path) != nullptr; }
  // Returns the paths of all values that are not null, not empty and no mappings, in their order.
  [[nodiscard]] std::vector<std::string> paths() const;
  // Returns those paths that no caller has read and that none of the prefixes covers. A prefix
  // covers a path if it is the path, or the path continues with a dot or, after a prefix that ends
  // in '*', with anything.
  [[nodiscard]] std::vector<std::string> not_looked_at(
      std::span<const std::string_view> without_cost) const;

  [[nodiscard]] const std::string& file() const { return document_.file; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return document_.notes; }
  // Returns "line 12: training.seq_len", or the path alone where the line is not known.
  [[nodiscard]] std::string place(const std::string& path) const;
  // Throws InputError with the place of the value in front of the problem.
  [[noreturn]] void refuse(const std::string& path, const std::string& problem,
                           const std::string& hint = "") const;

 private:
  // Nullptr where the value is absent.
  [[nodiscard]] const nlohmann::ordered_json* find(const std::string& path) const;
  const nlohmann::ordered_json* read(const std::string& path);

  ConfigDocument document_;
  std::set<std::string> read_;
};

}  // namespace trainyard
