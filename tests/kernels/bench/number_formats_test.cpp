#include "kernels/reference/number_formats.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard::reference {
namespace {

TEST(NumberFormats, RoundsToNearestTiesToEven) {
  EXPECT_EQ(rounded(DataType::Bf16, 1.0 + 0x1p-8), 1.0);               // halfway, down to even
  EXPECT_EQ(rounded(DataType::Bf16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);  // halfway, up to even
  EXPECT_EQ(rounded(DataType::Bf16, -1.004), -1.0078125);
  EXPECT_EQ(rounded(DataType::Fp16, 1.0 / 3.0), 0.333251953125);
  EXPECT_EQ(rounded(DataType::Tf32, 1.0 / 3.0), 0.333251953125);
  EXPECT_EQ(rounded(DataType::Fp32, 0.1), static_cast<double>(0.1F));
  EXPECT_EQ(rounded(DataType::Fp8, 0.3), 0.3125);
  EXPECT_EQ(rounded(DataType::Fp8, 0.0), 0.0);
}

TEST(NumberFormats, SmallValuesLoseTheirFraction) {
  EXPECT_EQ(rounded(DataType::Fp8, 0x1p-9), 0x1p-9);  // E4M3's least
  EXPECT_EQ(rounded(DataType::Fp8, 0x1p-10), 0.0);    // halfway to zero, which is even
  EXPECT_EQ(rounded(DataType::Fp8, 0x1.8p-10), 0x1p-9);
  EXPECT_EQ(rounded(DataType::Fp16, 0x1p-24), 0x1p-24);
}

TEST(NumberFormats, LargeValuesSaturate) {
  EXPECT_EQ(rounded(DataType::Fp8, 1000.0), 448.0);
  EXPECT_EQ(rounded(DataType::Fp8, -1000.0), -448.0);
  EXPECT_EQ(rounded(DataType::Fp16, 1e6), 65504.0);
}

TEST(NumberFormats, DecodesStoredBits) {
  EXPECT_EQ(decoded(DataType::Bf16, 0x3f80), 1.0);
  EXPECT_EQ(decoded(DataType::Bf16, 0xc049), -3.140625);
  EXPECT_EQ(decoded(DataType::Fp16, 0x3555), 0.333251953125);
  EXPECT_EQ(decoded(DataType::Fp16, 0x0001), 0x1p-24);
  EXPECT_EQ(decoded(DataType::Fp8, 0x7e), 448.0);
  EXPECT_EQ(decoded(DataType::Fp8, 0x01), 0x1p-9);
  EXPECT_EQ(decoded(DataType::Fp32, 0x3dcccccd), static_cast<double>(0.1F));
  EXPECT_EQ(decoded(DataType::Tf32, 0x40490000), 3.140625);
  EXPECT_EQ(decoded(DataType::Bf16, 0xff80), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(decoded(DataType::Fp8, 0xff)));
  EXPECT_TRUE(std::isnan(decoded(DataType::Bf16, 0x7fc0)));
}

// Every value that a 16-bit or 8-bit format can hold is one that rounding leaves alone.
TEST(NumberFormats, RoundingKeepsWhatCanBeStored) {
  for (const DataType dtype : {DataType::Bf16, DataType::Fp16, DataType::Fp8}) {
    const std::uint32_t count = dtype == DataType::Fp8 ? 256 : 65536;
    for (std::uint32_t bits = 0; bits < count; ++bits) {
      const double value = decoded(dtype, bits);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(rounded(dtype, value), value) << bits;
    }
  }
}

}  // namespace
}  // namespace trainyard::reference
