#include "kernels/roofline.hpp"

#include <algorithm>

namespace trainyard {

Seconds roofline(Flops flops, Bytes bytes, FlopsPerSecond peak, BytesPerSecond hbm) {
  const Seconds arithmetic = peak.value() > 0.0 ? flops / peak : Seconds{0.0};
  const Seconds traffic = hbm.value() > 0.0 ? bytes / hbm : Seconds{0.0};
  return std::max(arithmetic, traffic);
}

Cost at_least(const Cost& found, Seconds bound) {
  // Tables store shares of the roofline in ten-thousandths, so equality up to rounding is no
  // correction.
  constexpr double rounding = 1.0 + 1e-9;
  if (bound.value() > found.time.value() * rounding) return {bound, Provenance::Roofline};
  return {std::max(found.time, bound), found.provenance};
}

double ridge(FlopsPerSecond peak, BytesPerSecond hbm) { return peak.value() / hbm.value(); }

namespace {

// Payload share of a PCIe packet: 256 bytes after 26 of header, framing and checksum (PCI Express
// Base Specification, transaction and data link layers).
constexpr double packet_payload_share = 256.0 / 282.0;

Seconds memory_bound_time(const GpuSheet& sheet, const MemoryModel& model, Bytes bytes) {
  return bytes / BytesPerSecond{sheet.hbm.value() * model.bandwidth_efficiency};
}

}  // namespace

Cost memory_bound_cost(const GpuSheet& sheet, const MemoryModel& model, const MemoryBound& kernel) {
  const double launches = static_cast<double>(std::max<std::int64_t>(kernel.launches, 1));
  const Seconds time = model.floor * launches + memory_bound_time(sheet, model, hbm_bytes(kernel));
  return {time, model.measured_here ? Provenance::Interpolated : Provenance::Extrapolated};
}

Cost copy_cost(const GpuSheet& sheet, const MemoryModel& model, const Copy& copy) {
  if (copy.kind == CopyKind::DeviceToDevice)
    return {model.floor + memory_bound_time(sheet, model, hbm_bytes(copy)),
            model.measured_here ? Provenance::Interpolated : Provenance::Extrapolated};
  const BytesPerSecond link{sheet.host_link.value() * packet_payload_share};
  return {model.floor + hbm_bytes(copy) / link, Provenance::Roofline};
}

}  // namespace trainyard
