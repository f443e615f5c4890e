// The Transport of a cluster as a user chose it: NCCL's choices and the registry's algorithms, and
// a profile's times where one is given.
//
//   const ChosenTransport transport(cluster, options, profile, "profile.json");
//   transport.get().phases(call, gpus);
#pragma once

#include <optional>
#include <string>

#include "sim/collectives/profile/profiled_transport.hpp"
#include "sim/nccl/transport.hpp"

namespace trainyard {

class ChosenTransport {
 public:
  // `profile` may be nullptr; it and the cluster must outlive this.
  ChosenTransport(const Cluster& cluster, nccl::Options options, const CollectiveProfile* profile,
                  std::string profile_name)
      : nccl_(cluster, std::move(options)) {
    if (profile != nullptr) profiled_.emplace(cluster, nccl_, *profile, std::move(profile_name));
  }
  ChosenTransport(const ChosenTransport&) = delete;
  ChosenTransport& operator=(const ChosenTransport&) = delete;

  [[nodiscard]] const Transport& get() const {
    if (profiled_) return *profiled_;
    return nccl_;
  }
  [[nodiscard]] const nccl::NcclTransport& nccl() const { return nccl_; }
  // Does a profile say how long the call takes?
  [[nodiscard]] bool is_profiled(const Call& call, std::span<const std::uint32_t> gpus) const {
    return profiled_ && profiled_->curve(call, gpus) != nullptr;
  }

 private:
  nccl::NcclTransport nccl_;
  std::optional<ProfiledTransport> profiled_;
};

}  // namespace trainyard
