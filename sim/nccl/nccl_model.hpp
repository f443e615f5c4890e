// The CommunicationModel of NCCL: calls whose algorithm is "nccl" run with the algorithm, protocol
// and channels that NCCL would choose.
//
// NCCL's tuning model makes the choice, and the machine model (machine.hpp) computes the time. The
// call takes its latency. Then it moves its bytes on the links of the chosen algorithm, increased
// by the overhead of the protocol (LL sends twice the bytes), and no faster than the model
// predicts. On an idle fabric with the rates that the model assumes, it takes exactly the predicted
// time; if a link is slower or is shared, it takes longer. If no machine was measured (Volta), or
// if Options::machine is false, the tuning model also computes the time. Calls with other
// algorithms use AlgorithmModel.
//
//    NcclModel communication(cluster, {.version = "2.27"});
//    communication.label(call, gpus);     // "nccl: NVLS/Simple, 16 channels"
#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/collectives/placement.hpp"
#include "sim/nccl/machine.hpp"

namespace trainyard::nccl {

inline constexpr std::string_view kNcclName = "nccl";

// The phases of the chosen algorithm. All rails share the bytes, even if NCCL would use fewer
// channels. CollNet, and NVLS across nodes, load links as SHARP does (sharp.hpp), their gathers and
// scatters as the hierarchical algorithm does. Throws RunError if the fabric does not support the
// algorithm.
[[nodiscard]] std::vector<Phase> lower(const PlacedGroup& placed, const Choice& choice,
                                       double bytes);

// The registered algorithm that runs the choice message by message.
[[nodiscard]] std::optional<std::string> stepwise_algorithm(const Choice& choice,
                                                            bool crosses_nodes);

// Origin of the times: measurements of this GPU (or one with the same compute capability), of
// another GPU of its generation, or of no GPU. In the last case they come from NCCL's tuning model
// or from the algorithm that replaces NCCL.
enum class PricedBy : std::uint8_t { ThisGpu, ItsGeneration, NoGpu };

class NcclModel final : public CommunicationModel {
 public:
  NcclModel(const Cluster& cluster, Options options);
  ~NcclModel() override = default;
  // Not copyable: caches refer to communicators by their addresses.
  NcclModel(const NcclModel&) = delete;
  NcclModel& operator=(const NcclModel&) = delete;
  NcclModel(NcclModel&&) = default;
  NcclModel& operator=(NcclModel&&) = delete;

  // If GPUs of the group are not NVIDIA's and the options do not give a compute capability: throws
  // RunError, or with Options::allow_fallback uses the registered ring or tree, whichever is
  // faster for the call on an idle fabric (chain or direct for the operations without a ring).
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override;

  // NCCL's choice, with its time as the prediction. Nothing for a group of one, for another
  // algorithm, and for send_recv and all_to_all, which NCCL does not tune.
  [[nodiscard]] std::optional<Choice> choice(const Call& call,
                                             std::span<const std::uint32_t> gpus) const;

  // Labels: "nccl: Ring/LL, 1 channel"; "nccl: 32 channels, 32 a peer" (send_recv, all_to_all);
  // otherwise the name of the other algorithm, or of the one that replaces NCCL.
  [[nodiscard]] SelectedAlgorithm selected_algorithm(
      const Call& call, std::span<const std::uint32_t> gpus) const override;

  // The name of the registered algorithm that runs the call message by message. Throws RunError if
  // there is none for the choice.
  [[nodiscard]] std::string stepwise_name(const Call& call,
                                          std::span<const std::uint32_t> gpus) const;

  // NCCL's data about the usual GPUs and the host of the cluster; nothing for other GPUs.
  [[nodiscard]] const std::optional<HostFacts>& host() const { return host_; }

  // The origin of the measurements that determine the times on the usual GPUs of the cluster.
  [[nodiscard]] PricedBy priced_by() const;

  // The communicator of a group of two or more. Where NCCL's data do not contain one of its GPUs,
  // the first throws RunError and the second returns nullptr.
  [[nodiscard]] const Communicator& communicator(std::span<const std::uint32_t> gpus) const;
  [[nodiscard]] const Communicator* find_communicator(std::span<const std::uint32_t> gpus) const;

 private:
  // A distinct GpuLinks of the cluster, and NCCL's data about the GPU.
  struct KnownGpu {
    const GpuLinks* links = nullptr;
    std::optional<HostFacts> facts = {};
  };
  // Number of ranks, number of nodes, least compute capability (0 if NCCL's data do not contain a
  // GPU), and for each kind of node with the fewest members the numbers of its GPUs in gpus_.
  using Shape =
      std::tuple<std::size_t, std::size_t, std::uint32_t, std::set<std::vector<std::uint32_t>>>;

  // Communicator, operation, bytes, whether the type is an 8-bit float, and the latency of the
  // network. The rate of the network is that of the communicator's node.
  using Question = std::tuple<const Communicator*, CollectiveOp, std::int64_t, bool, double>;

  // True if NCCL chooses the algorithm of the call. False for other algorithms and for groups of
  // one.
  [[nodiscard]] bool chooses(const Call& call, std::span<const std::uint32_t> gpus) const;
  // The call with the registered algorithm that replaces NCCL.
  [[nodiscard]] Call stand_in(const Call& call, std::span<const std::uint32_t> gpus) const;

  // The machine model of the group, valid until the next call with another group; nullptr if NCCL's
  // tuning model computes the time.
  [[nodiscard]] const Machine* machine(std::span<const std::uint32_t> gpus) const;
  // NCCL's data about a GPU as the options change them.
  [[nodiscard]] std::optional<HostFacts> facts_of(const std::string& profile) const;
  // The machine model of a compute capability without its network; nothing if NCCL's tuning model
  // computes the time.
  [[nodiscard]] const std::optional<Machine>& machine_of(std::uint32_t sm) const;
  // The number of the GPU's links in gpus_.
  [[nodiscard]] std::uint32_t links_number(std::uint32_t gpu) const;
  [[nodiscard]] Shape shape_of(std::span<const std::uint32_t> gpus,
                               const Placement& placement) const;
  [[nodiscard]] const Communicator* communicator_of_group(
      std::span<const std::uint32_t> gpus) const;
  [[nodiscard]] const Communicator& communicator_of(CommunicatorShape shape, bool collnet) const;
  // The phases of the registered direct exchange, with the times of the machine model.
  [[nodiscard]] std::vector<Phase> exchange(const Call& call,
                                            std::span<const std::uint32_t> gpus) const;

  const Cluster& cluster_;
  Options options_;
  std::optional<HostFacts> host_;
  // The last group that was queried. Consecutive queries are often for the same group.
  struct LastGroup {
    std::vector<std::uint32_t> gpus = {};
    const Communicator* communicator = nullptr;
    std::optional<Machine> machine = {};  // with the network of the group
  };
  mutable LastGroup last_;
  AlgorithmModel others_;
  // Communicators by their parameters: the groups on all rails of a node share one.
  struct Made {
    CommunicatorShape shape;
    bool collnet = false;
    Communicator communicator;
  };
  mutable std::list<Made> made_;
  mutable std::map<Shape, const Communicator*> known_;                // points into made_
  mutable std::map<std::uint32_t, std::optional<Machine>> machines_;  // by compute capability
  mutable std::map<GpuLinks, std::uint32_t> number_of_links_;         // indices of gpus_
  mutable std::vector<KnownGpu> gpus_;               // points into number_of_links_
  mutable std::vector<std::uint32_t> links_of_gpu_;  // by GPU of the cluster, once it is queried
  mutable std::map<Question, Choice> chosen_;
  mutable std::map<std::tuple<CollectiveOp, std::int64_t, std::size_t>, std::string> stand_ins_;
};

}  // namespace trainyard::nccl
