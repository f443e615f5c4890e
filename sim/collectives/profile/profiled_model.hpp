// The CommunicationModel that takes times from a collective profile where the profile has them.
//
// It applies to a call whose algorithm is "nccl" (nccl-tests measures NCCL) on a group with as many
// ranks and nodes as a measured one. Such a call takes the measured latency; then it moves its
// bytes on the links that NCCL's model loads, no faster than measured. On an idle fabric it
// therefore takes the measured time, and with other calls it contends like any call. If the links
// cannot carry the bytes as fast as measured (the simulated cluster is slower than the measured
// one), the links determine the time. If NCCL's data do not contain the GPU (other vendors), a
// ring, a chain or direct messages load the links. All other calls use the other communication
// model.
//
//    ProfiledModel communication(cluster, nccl_model, profile, "profile.json");
//    communication.label(call, gpus);     // "profile: profile.json"
//
//    const ChosenModel chosen(cluster, options, &profile, "profile.json");
//    chosen.get().phases(call, gpus);     // with NCCL's choices
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/profile/collective_profile.hpp"
#include "sim/nccl/nccl_model.hpp"

namespace trainyard {

// The labels of calls whose times come from a profile begin so.
inline constexpr std::string_view kProfileLabel = "profile: ";

class ProfiledModel final : public CommunicationModel {
 public:
  // All reference arguments must outlive this object.
  ProfiledModel(const Cluster& cluster, const CommunicationModel& other,
                const CollectiveProfile& profile, std::string name);

  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override;

  // Label: "profile: FILE", with ", beyond the sizes measured" if the time is extrapolated;
  // otherwise the label of the other model.
  [[nodiscard]] SelectedAlgorithm selected_algorithm(
      const Call& call, std::span<const std::uint32_t> gpus) const override;

  // The curve from which the call takes its times, or nullptr.
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

// The CommunicationModel of a cluster according to the user's options: NCCL's choices, the
// registered algorithms, and the times of a profile if there is one.
class ChosenModel {
 public:
  // `profile` may be nullptr. The profile and the cluster must outlive this object.
  ChosenModel(const Cluster& cluster, nccl::Options options, const CollectiveProfile* profile,
              std::string profile_name)
      : nccl_(cluster, std::move(options)) {
    if (profile != nullptr) profiled_.emplace(cluster, nccl_, *profile, std::move(profile_name));
  }
  ChosenModel(const ChosenModel&) = delete;
  ChosenModel& operator=(const ChosenModel&) = delete;
  ~ChosenModel() = default;

  [[nodiscard]] const CommunicationModel& get() const {
    if (profiled_) return *profiled_;
    return nccl_;
  }
  [[nodiscard]] const nccl::NcclModel& nccl() const { return nccl_; }
  // True if a profile determines the time of the call.
  [[nodiscard]] bool is_profiled(const Call& call, std::span<const std::uint32_t> gpus) const {
    return profiled_ && profiled_->curve(call, gpus) != nullptr;
  }

 private:
  nccl::NcclModel nccl_;
  std::optional<ProfiledModel> profiled_;
};

}  // namespace trainyard
