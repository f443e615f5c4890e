// A file whose format is to be found: its text and, where it has one, its value as a document.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard {

struct ImportSample {
  std::string file;  // the name, which may be a folder
  std::string text;  // empty for a folder
  // The document of a YAML, TOML or JSON file; null for other files.
  nlohmann::ordered_json document;

  // Returns whether the document has a value at the path "model.num_layers".
  [[nodiscard]] bool has(const std::string& path) const {
    const nlohmann::ordered_json* at = &document;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find('.', begin), path.size());
      const std::string key = path.substr(begin, end - begin);
      if (!at->is_object() || !at->contains(key)) return false;
      at = &at->at(key);
      begin = end + 1;
    }
    return true;
  }
};

}  // namespace trainyard
