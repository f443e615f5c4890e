// Framework files that refer to another framework with "like".
#include "models/framework_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/framework.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

// Does a framework take from the framework it is "like" everything that its own file does not set?
TEST(FrameworkFile, HasWhatItIsLike) {
  const FrameworkMemory of_2023 = load_framework("megatron_2023");
  EXPECT_EQ(of_2023.channel_bytes, load_framework("megatron").channel_bytes);
  EXPECT_TRUE(load_gradient_passes("megatron_2023").unscale);
  const FrameworkTimes hopper = load_framework_times("megatron_2023", "hopper");
  const FrameworkTimes megatron = load_framework_times("megatron", "hopper");
  EXPECT_GT(hopper.gemm, megatron.gemm);
  EXPECT_GT(hopper.ring_passes, 0.0);
  EXPECT_DOUBLE_EQ(hopper.ring_passes, megatron.ring_passes);
  EXPECT_TRUE(load_gradient_passes("megatron_2021").accumulate);
  EXPECT_FALSE(load_framework("megatron_2021").gradient_placeholders);
}

// Is an invalid "like" refused?
TEST(FrameworkFile, ALikenessThatIsNoneIsRefused) {
  const auto refusal = [](std::string_view text) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "like.json";
    write_file(file, text);
    try {
      static_cast<void>(framework_file(file.string()));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(R"({"like": 7})"), testing::HasSubstr("/like: must be a text, got 7"));
  EXPECT_THAT(refusal(R"({"like": "megatron_2023"})"),
              testing::HasSubstr("\"megatron_2023\" is like another one itself"));
  EXPECT_THAT(refusal(R"({"like": "megatrom"})"),
              testing::HasSubstr("like.json: /like: \"megatrom\" is no framework"));
  EXPECT_EQ(refusal(R"({"like": "megatron"})"), "");
}

}  // namespace
}  // namespace trainyard
