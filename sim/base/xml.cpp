#include "sim/base/xml.hpp"

#include <expat.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kLevelsMost = 64;
constexpr std::size_t kParsePiece = std::size_t{1} << 20;  // expat takes lengths as int

// The state of the expat callbacks. Exceptions must not pass through expat, so a callback stores
// the refusal and stops the parser.
struct Reading {
  XML_Parser parser = nullptr;
  XmlElement root = {};
  std::vector<XmlElement*> open = {};
  std::string refusal = {};

  void refuse(std::string problem) {
    refusal = std::move(problem);
    XML_StopParser(parser, XML_FALSE);
  }
};

// expat 2.9 has a function of 64 bits and deprecates the one before.
auto current_line(XML_Parser parser) {
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
  return XML_GetCurrentLineNumber64(parser);
#else
  return XML_GetCurrentLineNumber(parser);
#endif
}

void XMLCALL start_element(void* user, const XML_Char* name, const XML_Char** attributes) {
  Reading& reading = *static_cast<Reading*>(user);
  if (reading.open.size() >= kLevelsMost)
    return reading.refuse(fmt::format("is nested deeper than {} levels", kLevelsMost));
  XmlElement* element =
      reading.open.empty() ? &reading.root : &reading.open.back()->children.emplace_back();
  element->name = name;
  element->line = static_cast<std::size_t>(current_line(reading.parser));
  for (; *attributes != nullptr; attributes += 2)
    element->attributes.emplace_back(attributes[0], attributes[1]);
  reading.open.push_back(element);
}

void XMLCALL end_element(void* user, const XML_Char* /*name*/) {
  Reading& reading = *static_cast<Reading*>(user);
  // An element that was refused at its start also ends.
  if (!reading.open.empty()) reading.open.pop_back();
}

// Entities could expand a small file to a large one.
void XMLCALL document_type(void* user, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  static_cast<Reading*>(user)->refuse("declares a document type, which no such file has");
}

}  // namespace

std::string XmlElement::attribute(std::string_view key) const {
  const auto found = std::ranges::find(
      attributes, key, [](const auto& pair) { return std::string_view(pair.first); });
  return found == attributes.end() ? std::string() : found->second;
}

const XmlElement* XmlElement::child(std::string_view key) const {
  const auto found = std::ranges::find(children, key, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

XmlElement parse_xml(const std::string& file, std::string_view text, const std::string& remedy) {
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(
      XML_ParserCreate(nullptr), &XML_ParserFree);
  Reading reading{.parser = parser.get()};
  XML_SetUserData(parser.get(), &reading);
  XML_SetElementHandler(parser.get(), start_element, end_element);
  XML_SetStartDoctypeDeclHandler(parser.get(), document_type);
  bool fine = true;
  do {
    const std::string_view piece = text.substr(0, kParsePiece);
    text.remove_prefix(piece.size());
    fine = XML_Parse(parser.get(), piece.data(), static_cast<int>(piece.size()),
                     text.empty() ? XML_TRUE : XML_FALSE) == XML_STATUS_OK;
  } while (fine && !text.empty());
  if (fine) return std::move(reading.root);
  const std::string problem = reading.refusal.empty()
                                  ? fmt::format("is not well-formed XML: {}",
                                                XML_ErrorString(XML_GetErrorCode(parser.get())))
                                  : reading.refusal;
  throw InputError(
      Problem{file, fmt::format("line {}", current_line(parser.get())), problem, remedy});
}

}  // namespace trainyard
