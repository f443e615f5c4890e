#include "kernels/bench/stored.hpp"

#include <cstring>

#include "kernels/reference/number_formats.hpp"
#include "sim/base/check.hpp"

namespace trainyard::bench {

std::vector<double> read_stored(const DeviceMemory& memory, const StoredRange& range) {
  const auto size = static_cast<std::int64_t>(element_bytes(range.dtype));
  TY_CHECK(
      size >= 2 && (range.first + range.count) * size <= static_cast<std::int64_t>(memory.bytes()),
      range.first, range.count);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(range.count * size));
  check(
      cudaMemcpy(bytes.data(), memory.at(range.first * size), bytes.size(), cudaMemcpyDeviceToHost),
      "reading a result");
  std::vector<double> values;
  for (std::size_t at = 0; at < bytes.size(); at += static_cast<std::size_t>(size)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, static_cast<std::size_t>(size));
    values.push_back(reference::decoded(range.dtype, bits));
  }
  return values;
}

}  // namespace trainyard::bench
