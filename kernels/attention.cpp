#include "kernels/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/roofline.hpp"
#include "sim/base/check.hpp"

namespace trainyard {

namespace {

constexpr double rows_per_block = 128.0;

struct Correction {
  double factor = 1.0;
  Provenance provenance = Provenance::Extrapolated;
};

// The causal square that represents a kernel in the tables. It has the same average number of keys
// per query, s_eq = 2*pairs/s_q - 1, and the same total number of rows, b*a*s_q/s_eq heads. A
// square represents itself. 2048 queries of 8 heads with 8192 earlier keys are equivalent to a
// square of 16383 with one head; a batch that packs four documents of 2048 is equivalent to a
// square of 2048 with four times the heads.
std::array<std::int64_t, 2> equal_square(const Attention& a) {
  const auto queries = static_cast<double>(a.query_length);
  const double length = std::max(1.0, 2.0 * static_cast<double>(a.pairs) / queries - 1.0);
  const double heads = static_cast<double>(a.batch * a.query_heads) * queries / length;
  return {static_cast<std::int64_t>(std::llround(length)),
          std::max<std::int64_t>(1, std::llround(heads))};
}

// Interpolates between the tables of the two nearest head sizes, in the logarithm of the size.
Correction correction_at(const AttentionModel& model, const Attention& a) {
  if (model.tables.empty()) return {};
  const std::array<std::int64_t, 2> shape = equal_square(a);
  const auto above = std::find_if(model.tables.begin(), model.tables.end(), [&](const auto& table) {
    return table.head_dim >= a.head_dim_qk;
  });
  const auto& high = above == model.tables.end() ? model.tables.back() : *above;
  const auto& low =
      above == model.tables.begin() || above == model.tables.end() ? high : *(above - 1);
  const auto at_low = low.correction.at(shape);
  const auto at_high = high.correction.at(shape);
  const double width =
      std::log(static_cast<double>(high.head_dim) / static_cast<double>(low.head_dim));
  const double share =
      width > 0.0
          ? std::log(static_cast<double>(a.head_dim_qk) / static_cast<double>(low.head_dim)) / width
          : 1.0;
  const bool spanned =
      above != model.tables.end() && model.tables.front().head_dim <= a.head_dim_qk;
  // The tables contain causal forward passes in half precision with equal head sizes.
  const bool same_kind = !a.backward && a.causal && a.head_dim_qk == a.head_dim_v &&
                         a.query_length == a.kv_length &&
                         a.pairs == a.query_length * (a.query_length + 1) / 2 &&
                         (a.dtype == DataType::Bf16 || a.dtype == DataType::Fp16);
  const bool inside = spanned && at_low.inside && at_high.inside && same_kind;
  return {std::exp(at_low.value + share * (at_high.value - at_low.value)),
          inside ? Provenance::Interpolated : Provenance::Extrapolated};
}

}  // namespace

Attention table_attention(std::int64_t sequence, std::int64_t batch_heads, std::int64_t head_dim) {
  return {.batch = 1,
          .query_heads = batch_heads,
          .kv_heads = batch_heads,
          .query_length = sequence,
          .kv_length = sequence,
          .head_dim_qk = head_dim,
          .head_dim_v = head_dim,
          .pairs = sequence * (sequence + 1) / 2};
}

Seconds attention_model_time(const GpuSheet& sheet, const AttentionModel& model,
                             const Attention& a) {
  TY_CHECK(a.batch > 0 && a.query_heads > 0 && a.query_length > 0 && a.kv_length > 0);
  const double efficiency = model.forward_efficiency *
                            (a.backward ? model.backward_relative : 1.0) *
                            (a.dtype == DataType::Fp8 ? model.eight_bit_relative : 1.0);
  const double rate = sheet.peak(a.dtype).value() * efficiency;
  // The backward pass has five GEMMs where the forward pass has two.
  const double per_key = 2.0 * std::min(rows_per_block, static_cast<double>(a.query_length)) *
                         static_cast<double>(a.head_dim_qk + a.head_dim_v) *
                         (a.backward ? 2.5 : 1.0);
  const double even = flops(a).value() / rate;
  const std::int64_t keys = a.longest_keys > 0 ? a.longest_keys : a.kv_length;
  const double longest =
      per_key * static_cast<double>(keys) * static_cast<double>(sheet.sms) / rate;
  // No block has more work than the whole kernel (windows shorten it).
  const double one = flops(a).value() * static_cast<double>(sheet.sms) / rate;
  const Seconds arithmetic{std::max(even, std::min(longest, one))};
  const Seconds traffic =
      hbm_bytes(a) / BytesPerSecond{sheet.hbm.value() * model.bandwidth_efficiency};
  return model.launch + std::max(arithmetic, traffic);
}

Cost attention_cost(const GpuSheet& sheet, const AttentionModel& model,
                    const Attention& attention) {
  const auto found = correction_at(model, attention);
  const bool latent = attention.head_dim_qk > attention.head_dim_v;
  const double wide = attention.backward ? model.latent_backward : model.latent_forward;
  const Seconds tabled =
      attention_model_time(sheet, model, attention) * (found.factor * (latent ? wide : 1.0));
  // The clock slows only the time after the launch.
  const Seconds launch = std::min(model.launch, tabled);
  const Seconds time = launch + (tabled - launch) * model.clock_time;
  const Seconds bound =
      roofline(flops(attention), hbm_bytes(attention), sheet.peak(attention.dtype), sheet.hbm);
  return at_least({time, found.provenance}, bound);
}

}  // namespace trainyard
