// A JSON parser that also rejects inputs that the library accepts.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard {

// Throws InputError for a syntax error (with line and column), duplicate keys (all of them, with
// their pointers) and nesting deeper than 200. Comments (// and /* */) are accepted.
[[nodiscard]] nlohmann::ordered_json parse_json(const std::string& name, std::string_view text);

// Returns the document, or nothing if parse_json would throw. It is for JSON text within other
// files.
[[nodiscard]] std::optional<nlohmann::ordered_json> try_parse_json(std::string_view text);

// Returns the document of a text that the program wrote or ships, such as a worker's answer. Throws
// the library's parse_error for any other. A file that calls the library's parser compiles it once
// more, which takes a second.
[[nodiscard]] nlohmann::ordered_json parse_trusted_json(const std::string& text);

}  // namespace trainyard
