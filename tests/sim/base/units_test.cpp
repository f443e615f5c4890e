#include "sim/base/units.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "sim/base/check.hpp"
#include "sim/base/checked.hpp"

namespace trainyard {
namespace {

static_assert(Bytes{450e9} / BytesPerSecond{450e9} == Seconds{1.0});
static_assert(Flops{6.0} / FlopsPerSecond{3.0} == Seconds{2.0});
static_assert(BytesPerSecond{2.0} * Seconds{3.0} == Bytes{6.0});

// Are quantities printed with four digits in the best unit?
TEST(Units, PrintFourDigitsInTheUnitThatReadsBest) {
  EXPECT_EQ(to_text(Seconds{13.75}), "13.75 s");
  EXPECT_EQ(to_text(Seconds{3.4e-6}), "3.4 us");
  EXPECT_EQ(to_text(Seconds{0.0}), "0 ns");
  EXPECT_EQ(to_text(Seconds{9999.0}), "9999 s");
  EXPECT_EQ(to_text(Seconds{86400.0}), "24 h");
  EXPECT_EQ(to_text(Seconds{30.5 * 86400.0}), "30.5 days");
  EXPECT_EQ(to_text(Seconds{3.0 * 365.25 * 86400.0}), "3 years");
  EXPECT_EQ(to_text(Bytes{80.0 * 0x1p30}), "80 GiB");
  EXPECT_EQ(to_text(BytesPerSecond{450e9}), "450 GB/s");
  EXPECT_EQ(to_text(FlopsPerSecond{312e12}), "312 TFLOP/s");
}

// Does rounding move up to the next unit?
TEST(Units, RoundUpIntoTheNextUnit) {
  // 999.96 ms would print as "1000 ms".
  EXPECT_EQ(to_text(Seconds{0.99996}), "1 s");
}

// Is a value that is not a number never printed?
TEST(Units, NeverPrintWhatIsNoNumber) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  EXPECT_THROW((void)to_text(Seconds{kInfinite}), InternalError);
  EXPECT_THROW((void)to_text(Bytes{std::nan("")}), InternalError);
  EXPECT_THROW((void)to_text(BytesPerSecond{kInfinite}), InternalError);
  EXPECT_THROW((void)to_text(FlopsPerSecond{-kInfinite}), InternalError);
  EXPECT_THROW((void)to_text(Bytes{-2.0}), InternalError);
}

// Does a sum throw instead of overflowing?
TEST(Checked, SumsThrowWhereTheyWouldWrap) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(checked_sum(kMost - 1, 1), kMost);
  EXPECT_EQ(checked_sum(-1, 1), 0);
  EXPECT_THROW((void)checked_sum(kMost, 1), SizeOverflow);
  EXPECT_THROW((void)checked_sum(-kMost, -2), SizeOverflow);
}

// Are parsed times the nearest double?
TEST(Quantity, TimesAreTheNearestDouble) {
  EXPECT_EQ(parse_time("2 us"), Seconds{2e-6});
  EXPECT_EQ(parse_time("500 ns"), Seconds{5e-7});
  EXPECT_EQ(parse_time("500ns"), Seconds{5e-7});
  EXPECT_EQ(parse_time(" 1.5  min "), Seconds{90.0});
  EXPECT_EQ(parse_time("0.7 µs"), Seconds{7e-7});
}

// Are sizes binary or decimal as written?
TEST(Quantity, SizesAreBinaryOrDecimalAsWritten) {
  EXPECT_EQ(parse_bytes("80 GiB"), Bytes{80.0 * 1073741824.0});
  EXPECT_EQ(parse_bytes("80 GB"), Bytes{80e9});
  EXPECT_EQ(parse_bytes("8 B"), Bytes{8.0});
}

// Can rates be in bits?
TEST(Quantity, RatesMayBeInBits) {
  EXPECT_EQ(parse_rate("450 GB/s"), BytesPerSecond{450e9});
  EXPECT_EQ(parse_rate("400 Gb/s"), BytesPerSecond{50e9});
  EXPECT_EQ(parse_rate("400 Gbit/s"), BytesPerSecond{50e9});
  EXPECT_EQ(parse_flops_rate("312 TFLOP/s"), FlopsPerSecond{312e12});
}

// Is a text refused that is not a number with a unit of the right kind?
TEST(Quantity, RefusesWhatIsNotANumberWithAUnitOfTheKind) {
  for (const char* text :
       {"", "2", "us", "2 GB", "2 us x", "nan s", "inf s", "1e999 s", "2,5 us", "0x2 s"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_rate("50 GB"), std::nullopt);
  EXPECT_EQ(parse_bytes("50 GB/s"), std::nullopt);
  EXPECT_EQ(parse_bytes("50 gb"), std::nullopt);
}

// Is exact text readable?
TEST(Quantity, ExactTextReadsWell) {
  EXPECT_EQ(exact_text(Seconds{5e-7}), "500 ns");
  EXPECT_EQ(exact_text(Seconds{13.75}), "13.75 s");
  EXPECT_EQ(exact_text(Bytes{80.0 * 0x1p30}), "80 GiB");
  EXPECT_EQ(exact_text(BytesPerSecond{450e9}), "450 GB/s");
  EXPECT_EQ(exact_text(FlopsPerSecond{0.0}), "0 FLOP/s");
  EXPECT_EQ(exact_text(Seconds{0.00723347347957}), "7.23347347957 ms") << "16 characters";
  EXPECT_EQ(exact_text(Seconds{0.001234567890123}), "0.001234567890123 s") << "17 in any unit";
}

// Does exact text read back to the last bit?
TEST(Quantity, ExactTextReadsBackToTheLastBit) {
  double value = 1e-12;
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(parse_time(exact_text(Seconds{value})), Seconds{value}) << value;
    EXPECT_EQ(parse_bytes(exact_text(Bytes{value})), Bytes{value}) << value;
    EXPECT_EQ(parse_rate(exact_text(BytesPerSecond{value})), BytesPerSecond{value}) << value;
    EXPECT_EQ(parse_flops_rate(exact_text(FlopsPerSecond{value})), FlopsPerSecond{value}) << value;
    value *= 1.0317;
  }
}

// Do the schema's patterns match the texts that the parsers accept?
TEST(Quantity, PatternsMatchWhatTheParsersAccept) {
  const std::regex time(time_pattern());
  const std::regex bytes(bytes_pattern());
  const std::regex rate(rate_pattern());
  const std::regex flops_rate(flops_rate_pattern());
  for (const std::string text : {"2 us", "500ns", "1.5 min", ".5 s", "5. s", "1e-3 s", "2", "us",
                                 "2 GB", "2,5 us", "nan s", "", "1e s", "2 us x"}) {
    EXPECT_EQ(std::regex_match(text, time), parse_time(text).has_value()) << text;
    EXPECT_EQ(std::regex_match(text, bytes), parse_bytes(text).has_value()) << text;
  }
  for (const std::string text : {"80 GiB", "1.5kB", "0 B", "1 MiB/s", "1 gib", "GiB"})
    EXPECT_EQ(std::regex_match(text, bytes), parse_bytes(text).has_value()) << text;
  for (const std::string text : {"312 TFLOP/s", "1e3 GFLOPS", "1 FLOP/s", "1 GB/s", "400 Gb/s",
                                 "1 GB", "1 tflop/s", "1 TFLOP"}) {
    EXPECT_EQ(std::regex_match(text, flops_rate), parse_flops_rate(text).has_value()) << text;
    EXPECT_EQ(std::regex_match(text, rate), parse_rate(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace trainyard
