// The Transport that takes times from a collective profile where there are some.
//
// A call whose algorithm is "nccl" (nccl-tests measures what NCCL does), on a group with as many
// ranks on as many nodes as a measured one, takes the measured latency and then moves its bytes on
// the links that NCCL's model loads, no faster than measured. So alone it takes the measured time,
// and beside others it contends like any call. Where the links cannot carry the bytes as fast as
// measured (the cluster described is slower than the one measured), the links decide. Where NCCL's
// data do not know the GPU (other makers'), a ring, a chain or direct messages load the links.
// Everything else is the other transport's.
//
//   ProfiledTransport transport(cluster, nccl_transport, profile, "profile.json");
//   transport.label(call, gpus);     // "profile: profile.json"
#pragma once

#include <string>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/profile/collective_profile.hpp"

namespace trainyard {

class ProfiledTransport final : public Transport {
 public:
  // All are referred to and must outlive it.
  ProfiledTransport(const Cluster& cluster, const Transport& other,
                    const CollectiveProfile& profile, std::string name);

  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override;

  // Labels: "profile: FILE", with what is stretched: ", beyond the sizes measured"; else the
  // other's.
  [[nodiscard]] Carrier carrier(const Call& call,
                                std::span<const std::uint32_t> gpus) const override;

  // The curve that the call takes its times from, or nullptr.
  [[nodiscard]] const MeasuredCurve* curve(const Call& call,
                                           std::span<const std::uint32_t> gpus) const;

 private:
  [[nodiscard]] std::vector<Chain> chains(const Call& call,
                                          std::span<const std::uint32_t> gpus) const;

  const Cluster& cluster_;
  const Transport& other_;
  const CollectiveProfile& profile_;
  std::string name_;
};

}  // namespace trainyard
