// XML as a tree of elements with their attributes. Text between elements is ignored.
//
//    const XmlElement system = parse_xml("topo.xml", text, "give the file that NCCL wrote");
//    for (const XmlElement& cpu : system.children) cpu.attribute("arch");
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes = {};
  std::vector<XmlElement> children = {};
  std::size_t line = 0;  // where it begins

  // Empty if the element has no attribute of that name.
  [[nodiscard]] std::string attribute(std::string_view key) const;
  // Returns the first child of that name; nullptr if there is none.
  [[nodiscard]] const XmlElement* child(std::string_view key) const;
};

// Returns the outermost element. Throws InputError, with `remedy`, for text that is not well-formed
// (with its line), declares a document type, or is nested deeper than 64 levels.
[[nodiscard]] XmlElement parse_xml(const std::string& file, std::string_view text,
                                   const std::string& remedy);

}  // namespace trainyard
