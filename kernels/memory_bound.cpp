#include "kernels/memory_bound.hpp"

#include <algorithm>

namespace trainyard {

namespace {

// Payload share of a PCIe packet: 256 bytes behind 26 of header, framing and check (PCI Express
// Base Specification, transaction and data link layers).
constexpr double packet_payload_share = 256.0 / 282.0;

Seconds streaming(const GpuSheet& sheet, const MemoryModel& model, Bytes bytes) {
  return bytes / BytesPerSecond{sheet.hbm.value() * model.bandwidth_efficiency};
}

}  // namespace

Cost memory_bound_cost(const GpuSheet& sheet, const MemoryModel& model, const MemoryBound& kernel) {
  const double launches = static_cast<double>(std::max<std::int64_t>(kernel.launches, 1));
  const Seconds time = model.floor * launches + streaming(sheet, model, hbm_bytes(kernel));
  return {time, model.measured_here ? Provenance::Interpolated : Provenance::Extrapolated};
}

Cost copy_cost(const GpuSheet& sheet, const MemoryModel& model, const Copy& copy) {
  if (copy.kind == CopyKind::DeviceToDevice)
    return {model.floor + streaming(sheet, model, hbm_bytes(copy)),
            model.measured_here ? Provenance::Interpolated : Provenance::Extrapolated};
  const BytesPerSecond link{sheet.host_link.value() * packet_payload_share};
  return {model.floor + hbm_bytes(copy) / link, Provenance::Roofline};
}

}  // namespace trainyard
