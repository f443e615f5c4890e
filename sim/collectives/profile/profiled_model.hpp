// The CommunicationModel that takes times from a collective profile where there are some.
//
// A call whose algorithm is "nccl" (nccl-tests measures what NCCL does), on a group with as many
// ranks on as many nodes as a measured one, takes the measured latency and then moves its bytes on
// the links that NCCL's model loads, no faster than measured. So alone it takes the measured time,
// and beside others it contends like any call. Where the links cannot carry the bytes as fast as
// measured (the cluster described is slower than the one measured), the links decide. Where NCCL's
// data do not know the GPU (other makers'), a ring, a flow or direct messages load the links.
// Everything else is the other communication's.
//
//   ProfiledModel communication(cluster, nccl_model, profile, "profile.json");
//   communication.label(call, gpus);     // "profile: profile.json"
//
//   const ChosenModel chosen(cluster, options, profile, "profile.json");
//   chosen.get().phases(call, gpus);     // with NCCL's choices
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/nccl/nccl_model.hpp"

namespace trainyard {

class ProfiledModel final : public CommunicationModel {
 public:
  // All are referred to and must outlive it.
  ProfiledModel(const Cluster& cluster, const CommunicationModel& other,
                const CollectiveProfile& profile, std::string name);

  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override;

  // Labels: "profile: FILE", with what is stretched: ", beyond the sizes measured"; else the
  // other's.
  [[nodiscard]] SelectedAlgorithm selected_algorithm(
      const Call& call, std::span<const std::uint32_t> gpus) const override;

  // The curve that the call takes its times from, or nullptr.
  [[nodiscard]] const MeasuredCurve* curve(const Call& call,
                                           std::span<const std::uint32_t> gpus) const;

 private:
  [[nodiscard]] std::vector<MultiLinkFlow> flows(const Call& call,
                                                 std::span<const std::uint32_t> gpus) const;

  const Cluster& cluster_;
  const CommunicationModel& other_;
  const CollectiveProfile& profile_;
  std::string name_;
};

// The CommunicationModel of a cluster as a user chose it: NCCL's choices and the registry's
// algorithms, and a profile's times where one is given.
class ChosenModel {
 public:
  // `profile` may be nullptr; it and the cluster must outlive this.
  ChosenModel(const Cluster& cluster, nccl::Options options, const CollectiveProfile* profile,
              std::string profile_name)
      : nccl_(cluster, std::move(options)) {
    if (profile != nullptr) profiled_.emplace(cluster, nccl_, *profile, std::move(profile_name));
  }
  ChosenModel(const ChosenModel&) = delete;
  ChosenModel& operator=(const ChosenModel&) = delete;

  [[nodiscard]] const CommunicationModel& get() const {
    if (profiled_) return *profiled_;
    return nccl_;
  }
  [[nodiscard]] const nccl::NcclModel& nccl() const { return nccl_; }
  // Does a profile say how long the call takes?
  [[nodiscard]] bool is_profiled(const Call& call, std::span<const std::uint32_t> gpus) const {
    return profiled_ && profiled_->curve(call, gpus) != nullptr;
  }

 private:
  nccl::NcclModel nccl_;
  std::optional<ProfiledModel> profiled_;
};

}  // namespace trainyard
