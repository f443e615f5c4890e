// The number of reads and writes of the element-wise operations of a framework.
#include <gtest/gtest.h>

#include "models/framework.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kBf16 = 2;

// Is an eager RMSNorm a series of kernels? Forward: a cast (2 + 4), a square (4 + 4), a mean (4), a
// product (4 + 4), a cast (4 + 2), the gain (2 + 2). Backward: gain (2 + 2; 2 + 2 + 2 and the sum,
// 2), cast (2 + 4), product (4 + 4; 4 + 4 + 4 and the sum, 4), mean (4), square (4 + 4, 4 + 4, 4 +
// 4 + 4), the sum of both uses (4 + 4 + 4), cast (4 + 2).
TEST(ElementwiseKernels, AnEagerRmsNormIsManyKernels) {
  const ElementwiseKernels eager = load_elementwise_kernels("pytorch", false);
  EXPECT_EQ(eager.rms_norm.forward.bytes(kBf16), 6 + 8 + 4 + 8 + 6 + 4);
  EXPECT_EQ(eager.rms_norm.backward.bytes(kBf16),
            4 + 6 + 2 + 6 + 8 + 12 + 4 + 4 + 8 + 8 + 12 + 12 + 6);
  EXPECT_EQ(eager.rms_norm.kept.bytes(kBf16), 4 + 2);  // the fp32 input, and the input of the gain
}

// Is an eager gated activation five kernels? Forward: silu (2 + 2) and a product (2 + 2 + 2).
// Backward: two products (6 each) and silu's own backward (6).
TEST(ElementwiseKernels, AnEagerGateIsFiveKernels) {
  const ElementwiseKernels eager = load_elementwise_kernels("pytorch", false);
  EXPECT_EQ(eager.gated_activation.forward.bytes(kBf16), 4 + 6);
  EXPECT_EQ(eager.gated_activation.backward.bytes(kBf16), 6 + 6 + 6);
  EXPECT_EQ(eager.gated_activation.forward.launches, 2);
  EXPECT_EQ(eager.gated_activation.backward.launches, 3);
  EXPECT_EQ(eager.gated_activation.kept.narrow, 4);  // gate, silu of gate, up, product
}

// Does compilation fuse everything except complex numbers? A fused kernel reads inputs and writes
// outputs; the compiler does not change complex numbers.
TEST(ElementwiseKernels, CompiledAllIsFusedButComplexNumbers) {
  const ElementwiseKernels compiled = load_elementwise_kernels("pytorch", true);
  const ElementwiseKernels eager = load_elementwise_kernels("pytorch", false);
  const ElementwiseKernels fused = {};
  EXPECT_EQ(compiled.rms_norm.forward, fused.rms_norm.forward);
  EXPECT_EQ(compiled.rms_norm.backward, fused.rms_norm.backward);
  EXPECT_EQ(compiled.layer_norm.backward, fused.layer_norm.backward);
  EXPECT_EQ(compiled.gated_activation.backward, fused.gated_activation.backward);
  EXPECT_EQ(compiled.rotary.forward, eager.rotary.forward);
  EXPECT_EQ(eager.rotary.forward.bytes(kBf16), 6 + 8 + 6);
}

// Do frameworks with fused kernels have the same kernels after compilation?
TEST(ElementwiseKernels, FrameworksOfFusedKernelsAreTheSameCompiled) {
  for (const bool compiled : {false, true}) {
    const ElementwiseKernels kernels = load_elementwise_kernels("megatron", compiled);
    const ElementwiseKernels fused = {};
    EXPECT_EQ(kernels.rms_norm.backward, fused.rms_norm.backward);
    EXPECT_EQ(kernels.rotary.backward, fused.rotary.backward);
    EXPECT_FALSE(kernels.repeated_heads || kernels.separate_gemms || kernels.joined_gradients);
    EXPECT_EQ(kernels.loss_metrics, 0);
  }
}

// Does Composer run two kernels after a LayerNorm? LayerNorm has separate kernels in PyTorch, and
// the gradients of its weights read everything once more.
TEST(ElementwiseKernels, ComposerRunsTwoKernelsBehindALayerNorm) {
  const ElementwiseKernels composer = load_elementwise_kernels("composer", false);
  EXPECT_EQ(composer.layer_norm.forward.bytes(kBf16), 4);
  EXPECT_EQ(composer.layer_norm.backward.bytes(kBf16), 6 + 4);
  EXPECT_EQ(composer.loss_metrics, 2);
}

// Is a figure without a number of launches refused?
TEST(ElementwiseKernels, AFigureWithoutLaunchesIsRefused) {
  const auto file = std::filesystem::temp_directory_path() / "trainyard_streaming.json";
  write_file(file, R"({"elementwise": {"rms_norm": {"source": "a test",
                       "eager": {"forward": {"narrow": 2}, "backward": {"narrow": 3}}}}})");
  EXPECT_THROW((void)load_elementwise_kernels(file.string(), false), InputError);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace trainyard
