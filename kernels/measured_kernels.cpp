#include "kernels/measured_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainyard {

namespace {

// Efficiencies change over an octave or two; there is no information about offsets of families.
constexpr KrigingRule rule{
    .place_length = 3.0, .family_variance = 0.0, .noise = 0.002, .nearest = 40, .mean = 0.0};

double octaves(double extent) { return std::log2(std::max(extent, 1.0)); }
double octaves(std::int64_t extent) { return octaves(static_cast<double>(extent)); }

// Point of a kernel in the interpolation. Two kernels influence each other only if their `kind` is
// equal, and the more the closer their points are.
struct Place {
  std::string kind;
  std::array<double, kriging_dimensions> at{};
};

struct PlaceOf {
  Place operator()(const Gemm& g) const {
    return {fmt::format("gemm {} {} {}", to_string(g.dtype), to_string(g.pass), g.accumulate_fp32),
            {octaves(g.m), octaves(g.n), octaves(g.k), octaves(g.batch)}};
  }
  Place operator()(const GroupedGemm& g) const {
    const auto experts = static_cast<std::int64_t>(g.rows.size());
    const std::int64_t rows = std::accumulate(g.rows.begin(), g.rows.end(), std::int64_t{0});
    return {fmt::format("grouped {} {} {} {}", to_string(g.dtype), to_string(g.pass),
                        g.accumulate_fp32, g.per_expert),
            {octaves(static_cast<double>(rows) /
                     static_cast<double>(std::max<std::int64_t>(1, experts))),
             octaves(experts), octaves(g.n), octaves(g.k)}};
  }
  Place operator()(const Attention& a) const {
    return {fmt::format("attention {} {} {}", to_string(a.dtype), a.causal, a.backward),
            {octaves(a.query_length), octaves(a.kv_length), octaves(a.batch * a.query_heads),
             octaves(a.batch * a.kv_heads), octaves(a.head_dim_qk), octaves(a.head_dim_v),
             octaves(a.pairs)}};
  }
  Place operator()(const MemoryBound& m) const {
    return {fmt::format("memory {}", to_string(m.kind)),
            {octaves(m.bytes / std::max<std::int64_t>(1, m.launches))}};
  }
  Place operator()(const Copy& c) const {
    return {fmt::format("copy {}", to_string(c.kind)), {octaves(c.bytes)}};
  }
  // Kernels of one trace give no information about those of another, so each is a separate kind.
  Place operator()(const Recorded& r) const { return {to_text(r), {}}; }
};

// A block of a ring has the same measurement as any other attention of its shape.
Kernel measured_alone(Kernel kernel) {
  if (auto* attention = std::get_if<Attention>(&kernel)) attention->of_ring = false;
  return kernel;
}

// The text of a grouped GEMM contains only the sum of its rows; the key needs each of them.
std::string key_of(const Kernel& kernel) {
  const auto* grouped = std::get_if<GroupedGemm>(&kernel);
  if (grouped == nullptr) return to_text(measured_alone(kernel));
  return fmt::format("{} rows {}", to_text(kernel), fmt::join(grouped->rows, ","));
}

}  // namespace

void MeasuredKernels::add(const MeasuredKernel& measured, Seconds modelled) {
  const Place place = std::visit(PlaceOf{}, measured.kernel);
  exact_[key_of(measured.kernel)] = measured.time;
  by_kind_[place.kind].push_back(
      {{.place = place.at, .family = 0, .along = 0.0}, std::log(measured.time / modelled)});
}

void MeasuredKernels::add_in_step(const MeasuredKernel& measured) {
  in_step_[key_of(measured.kernel)] = measured.time;
}

std::optional<Seconds> MeasuredKernels::exact(const Kernel& kernel) const {
  const auto found = exact_.find(key_of(kernel));
  return found == exact_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Seconds> MeasuredKernels::in_step(const Kernel& kernel) const {
  const auto found = in_step_.find(key_of(kernel));
  return found == in_step_.end() ? std::nullopt : std::optional(found->second);
}

MeasuredKernels::Reading MeasuredKernels::correction(const Kernel& kernel) const {
  const Place place = std::visit(PlaceOf{}, kernel);
  const auto found = by_kind_.find(place.kind);
  if (found == by_kind_.end()) return {};
  const bool near = std::ranges::any_of(found->second, [&](const Observation& seen) {
    for (std::size_t d = 0; d < kriging_dimensions; ++d)
      if (std::abs(seen.spot.place[d] - place.at[d]) > 1.0) return false;
    return true;
  });
  return {kriged(found->second, {.place = place.at, .family = 0, .along = 0.0}, rule), near};
}

}  // namespace trainyard
