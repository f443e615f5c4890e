// The CommunicationModel that does what NCCL would: calls whose algorithm is "nccl" run by NCCL's
// own choice.
//
// NCCL's tuning model chooses, the machine model (machine.hpp) tells the time: the call takes its
// latency, then moves its bytes on the links of the chosen algorithm, inflated by the protocol (LL
// sends twice the bytes), and no faster than the model says. So alone on a fabric that gives what
// the model counts on it takes exactly the model's time; where a link has less, or others use it,
// it takes longer. Where no machine was measured (Volta), or Options::machine is false, the tuning
// model tells the time as well. Calls with other algorithms are AlgorithmModel's.
//
//   NcclModel communication(cluster, {.version = "2.27"});
//   communication.label(call, gpus);     // "nccl: NVLS/Simple, 16 channels"
#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/collectives/collective.hpp"
#include "sim/nccl/machine.hpp"

namespace trainyard::nccl {

inline constexpr std::string_view kNcclName = "nccl";

// The chosen algorithm's phases. All rails share the bytes, however few channels NCCL would use.
// CollNet, and NVLS across nodes, go by SHARP (sharp.hpp), their gathers and scatters as the
// hierarchical ones do. Throws RunError for what the fabric cannot do.
[[nodiscard]] std::vector<Phase> lower(const GroupPlace& place, const Choice& choice, double bytes);

// The registry's name of the algorithm that plays the choice message by message.
[[nodiscard]] std::optional<std::string> stepwise_algorithm(const Choice& choice,
                                                            bool crosses_nodes);

// Times come from measurements of this GPU (or one with the same compute capability), of another of
// its generation, or of no GPU: NCCL's own tuning model, or what stands in for NCCL.
enum class PricedBy : std::uint8_t { ThisGpu, ItsGeneration, NoGpu };

class NcclModel final : public CommunicationModel {
 public:
  NcclModel(const Cluster& cluster, Options options);
  ~NcclModel() override = default;
  // It keeps what it knows of groups by their communicators' addresses.
  NcclModel(const NcclModel&) = delete;
  NcclModel& operator=(const NcclModel&) = delete;
  NcclModel(NcclModel&&) = default;
  NcclModel& operator=(NcclModel&&) = delete;

  // Where the cluster's GPUs are not NVIDIA's and the options do not say what they are: throws
  // RunError, or with Options::stands_in takes the registry's ring or tree, whichever is quicker
  // for the call alone (flow and direct for the operations that have no ring).
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override;

  // NCCL's choice, with the time it takes as its prediction; nothing for a group of one,
  // another algorithm, and for send_recv and all_to_all, which it does not tune.
  [[nodiscard]] std::optional<Choice> choice(const Call& call,
                                             std::span<const std::uint32_t> gpus) const;

  // Labels: "nccl: Ring/LL, 1 channel"; "nccl: 32 channels, 32 a peer" (send_recv, all_to_all); the
  // name of another algorithm, and of the one that stands in for NCCL.
  [[nodiscard]] SelectedAlgorithm selected_algorithm(
      const Call& call, std::span<const std::uint32_t> gpus) const override;

  // The registry's name of what plays the call message by message. Throws RunError where the
  // choice needs a switch that takes part.
  [[nodiscard]] std::string stepwise_name(const Call& call,
                                          std::span<const std::uint32_t> gpus) const;

  // The facts in NCCL's data about the cluster's GPUs and host; nothing for other GPUs.
  [[nodiscard]] const std::optional<HostFacts>& host() const { return host_; }

  // The origin of the measurements that price NCCL's choices.
  [[nodiscard]] PricedBy priced_by() const;

  // The communicator of a group of two or more.
  [[nodiscard]] const Communicator& communicator(std::span<const std::uint32_t> gpus) const;

 private:
  // Ranks, nodes, and of each kind of node its NICs and the GPUs that the group has of it.
  using Shape = std::tuple<std::size_t, std::size_t, std::vector<std::uint32_t>>;

  // By shape, operation, bytes, whether it is of 8-bit floats, and the network's latency.
  using Question = std::tuple<const Communicator*, CollectiveOp, std::int64_t, bool, double>;

  // Does NCCL choose for the call? It does not for other algorithms and groups of one.
  [[nodiscard]] bool chooses(const Call& call, std::span<const std::uint32_t> gpus) const;
  // The call by the registered algorithm that stands in for NCCL.
  [[nodiscard]] Call stand_in(const Call& call, std::span<const std::uint32_t> gpus) const;

  // The machine model of the group, valid until another group's is asked for; nothing where NCCL's
  // own model tells the time.
  [[nodiscard]] const Machine* machine(std::span<const std::uint32_t> gpus) const;
  [[nodiscard]] const Communicator& communicator_like(std::span<const std::uint32_t> gpus) const;
  [[nodiscard]] const Communicator& communicator_of(CommunicatorShape shape, bool collnet) const;
  // The registry's direct exchange at the machine's pace.
  [[nodiscard]] std::vector<Phase> exchange(const Call& call,
                                            std::span<const std::uint32_t> gpus) const;

  const Cluster& cluster_;
  Options options_;
  std::optional<HostFacts> host_;
  // The group last asked for: its calls come in a row.
  struct LastGroup {
    std::vector<std::uint32_t> gpus = {};
    const Communicator* communicator = nullptr;
    std::optional<Machine> machine = {};
  };
  std::optional<Machine> machine_;  // for any group, without its network
  mutable LastGroup last_;
  AlgorithmModel others_;
  // Communicators by what they are made of: those of all rails of a node are one.
  struct Made {
    CommunicatorShape shape;
    bool collnet = false;
    Communicator communicator;
  };
  mutable std::list<Made> made_;
  mutable std::map<Shape, const Communicator*> known_;  // in made_
  mutable std::map<Question, Choice> chosen_;
  mutable std::map<std::tuple<CollectiveOp, std::int64_t, std::size_t>, std::string> stand_ins_;
};

}  // namespace trainyard::nccl
