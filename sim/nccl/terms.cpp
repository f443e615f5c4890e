#include "sim/nccl/terms.hpp"

namespace trainyard::nccl {

std::string_view to_string(Algorithm algorithm) {
  constexpr std::array<std::string_view, kAlgorithms.size()> kNames{
      "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
  return kNames.at(static_cast<std::size_t>(algorithm));
}

std::string_view to_string(Protocol protocol) {
  constexpr std::array<std::string_view, kProtocols.size()> kNames{"LL", "LL128", "Simple"};
  return kNames.at(static_cast<std::size_t>(protocol));
}

double wire_efficiency(Protocol protocol) {
  constexpr std::array kShares{0.5, 120.0 / 128.0, 1.0};
  return kShares.at(static_cast<std::size_t>(protocol));
}

Generation generation_of(std::uint32_t compute_capability) {
  if (compute_capability >= 100) return Generation::Blackwell;
  if (compute_capability >= 90) return Generation::Hopper;
  return compute_capability >= 80 ? Generation::Ampere : Generation::Volta;
}

std::string_view to_string(PathType type) {
  constexpr std::array<std::string_view, 12> kNames{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                                    "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  return kNames.at(static_cast<std::size_t>(type));
}

}  // namespace trainyard::nccl
