#include "sim/chakra/trace_file.hpp"

namespace trainyard::chakra {

std::optional<std::int64_t> integer(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  const Value& value = found->second;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* small = std::get_if<std::int32_t>(&value)) return *small;
  if (const auto* positive = std::get_if<std::uint64_t>(&value))
    return static_cast<std::int64_t>(*positive);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return {};
}

std::string text(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  if (const auto* words = std::get_if<std::string>(&found->second)) return *words;
  const auto number = integer(attributes, name);
  return number ? std::to_string(*number) : std::string();
}

}  // namespace trainyard::chakra
