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

// Parses as the library does: it throws the library's parse_error and accepts duplicate keys. It
// is for text that the program wrote, and for callers that handle the error. It is compiled once; a
// file that calls the library's parser compiles that once more, which takes a second.
[[nodiscard]] nlohmann::ordered_json parse_unchecked_json(const std::string& text);

}  // namespace trainyard
