#include "sim/render/csv.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace trainyard {

namespace {

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size();
}

// Excel and LibreOffice run such cells as formulas (OWASP, CSV injection).
bool is_formula(const std::string& text) {
  constexpr std::string_view kBegins = "=+-@\t\r";
  return text.size() > 1 && kBegins.find(text.front()) != std::string_view::npos &&
         !is_number(text);
}

}  // namespace

std::string csv_field(std::string_view text) {
  std::string field(text);
  if (is_formula(field)) field.insert(field.begin(), '\'');
  if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char letter : field)
    quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

std::string csv_cell(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  return csv_field(value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace trainyard
