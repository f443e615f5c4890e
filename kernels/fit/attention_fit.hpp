// Fits the attention model to measured causal forward kernels.
//
// The tables time an inference engine's attention call, which also stores the new keys and values
// in a cache. That part is proportional to their bytes. The fit estimates it as a rate and removes
// it, because a training step has no such cache.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/fit/samples.hpp"

namespace trainyard::fit {

struct AttentionFit {
  AttentionModel model{};                           // with its tables
  BytesPerSecond append{1e12};                      // rate of storing keys and values in the cache
  std::array<std::vector<std::int64_t>, 2> axes{};  // sequence, batch x heads
  std::vector<std::int64_t> head_dims{};
  std::vector<std::vector<double>> share{};  // of peak FLOP/s, per head size and node
  std::vector<std::vector<bool>> measured{};
};

[[nodiscard]] AttentionFit fit_attention(const GpuSheet& sheet,
                                         const std::vector<AttentionSample>& samples);
// The time that the table would contain for the sample: the kernel, and storing keys and values.
[[nodiscard]] Seconds table_time(const GpuSheet& sheet, const AttentionModel& model,
                                 BytesPerSecond append, const AttentionSample& sample);
[[nodiscard]] Errors attention_errors(const GpuSheet& sheet, const AttentionFit& fit,
                                      const std::vector<AttentionSample>& samples);
[[nodiscard]] Errors held_out_attention(const GpuSheet& sheet,
                                        const std::vector<AttentionSample>& samples,
                                        const HoldOut& hold_out);

}  // namespace trainyard::fit
