// XML files: elements are read as they are, and dangerous constructs are refused.
#include "sim/base/xml.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;

std::string problem_of(const std::string& text) {
  try {
    return "read <" + parse_xml("f.xml", text, "remedy").name + ">";
  } catch (const InputError& error) {
    return error.what();
  }
}

// Do elements keep their order and attributes?
TEST(Xml, ElementsKeepTheirOrderAndAttributes) {
  const XmlElement root = parse_xml(
      "f.xml", "<?xml version=\"1.0\"?><!-- c --><a x='1 &lt; 2'>t<b/><c y=\"2\"/><b/></a>", "");
  EXPECT_EQ(root.name, "a");
  EXPECT_EQ(root.attribute("x"), "1 < 2");
  EXPECT_EQ(root.attribute("z"), "");
  ASSERT_EQ(root.children.size(), 3U);
  EXPECT_EQ(root.child("c")->attribute("y"), "2");
  EXPECT_EQ(root.child("d"), nullptr);
}

// Are errors reported with their line?
TEST(Xml, FaultsAreReportedWithTheirLine) {
  EXPECT_EQ(problem_of("<a>\n<b>\n</a>"),
            "f.xml: line 3: is not well-formed XML: mismatched tag (remedy)");
  EXPECT_THAT(problem_of(""), HasSubstr("f.xml: line 1: is not well-formed XML"));
  EXPECT_THAT(problem_of("<a>\xff</a>"), HasSubstr("is not well-formed XML"));
  EXPECT_THAT(problem_of("<a/><b/>"), HasSubstr("is not well-formed XML"));
}

// Is deep nesting refused?
TEST(Xml, DeepNestingIsRefused) {
  std::string deep;
  for (int i = 0; i < 40'000; ++i) deep += "<pci>";
  EXPECT_THAT(problem_of(deep), HasSubstr("is nested deeper than 64 levels (remedy)"));
}

// Are entities refused? "Billion laughs" is ten entities, each of ten of the previous one.
TEST(Xml, EntitiesAreRefused) {
  EXPECT_THAT(problem_of("<!DOCTYPE a [<!ENTITY b \"bbbb\">]><a>&b;</a>"),
              HasSubstr("declares a document type"));
}

}  // namespace
}  // namespace trainyard
