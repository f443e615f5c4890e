#include "sim/base/letters.hpp"

#include <gtest/gtest.h>

#include <cctype>

namespace trainyard {
namespace {

TEST(Letters, AreThoseOfTheCLocaleForEveryByte) {
  for (int byte = 0; byte < 256; ++byte) {
    const char letter = static_cast<char>(byte);
    EXPECT_EQ(lower_case(letter), static_cast<char>(std::tolower(byte))) << byte;
    EXPECT_EQ(is_letter(letter), std::isalpha(byte) != 0) << byte;
    EXPECT_EQ(is_letter_or_digit(letter), std::isalnum(byte) != 0) << byte;
  }
}

TEST(Letters, OfAWordBecomeSmallAndOtherBytesStay) {
  EXPECT_EQ(lower_case("NCCL 2.28, Z\xC3\xBCrich"), "nccl 2.28, z\xC3\xBCrich");
}

}  // namespace
}  // namespace trainyard
