// A collective algorithm, in two forms that must agree: phases (fluid) and point-to-point steps.
//
// An algorithm is one file and one row of the registry. It is told the group's place on the cluster
// and the size, and answers with phases of flows (sim/cluster/communication_model.hpp) or with the
// messages a real implementation sends. Laws over every registered algorithm run in
// tests/sim/collectives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/cluster.hpp"
#include "sim/cluster/communication_model.hpp"
#include "sim/workload/call.hpp"
#include "sim/workload/workload.hpp"

namespace trainyard {

// A group's members as GPUs of a cluster, by group rank.
struct GroupPlace {
  const Cluster& cluster;
  std::span<const std::uint32_t> gpus;
  std::span<const std::int64_t> matrix =
      {};  // CollectiveCall::matrix; empty: all members send alike
};

[[nodiscard]] inline std::uint32_t ranks_of(const GroupPlace& place) {
  return static_cast<std::uint32_t>(place.gpus.size());
}

// One message. It carries what its sender held at the start, with the messages of `after` (by
// index, all earlier, all received by the sender) applied in order; nothing else has to have
// arrived.
struct Message {
  std::uint32_t from =
      0;  // group rank in the group; from the number of ranks on, a switch (switches())
  std::uint32_t to = 0;
  double bytes = 0.0;
  std::uint32_t step = 0;  // messages of one step may run together
  std::uint32_t channel =
      0;                // a member sends (and receives) the messages of one channel one by one
  bool reduce = false;  // the receiver adds what arrives to what it has
  std::uint32_t piece_begin = 0;  // which of the group's equal pieces it carries (see pieces())
  std::uint32_t piece_end = 0;
  std::vector<std::uint32_t> after = {};
  // Pieces that are no range, ascending; piece_begin and piece_end are then not read.
  std::vector<std::uint32_t> scattered = {};

  [[nodiscard]] std::uint32_t piece_count() const {
    return scattered.empty() ? piece_end - piece_begin
                             : static_cast<std::uint32_t>(scattered.size());
  }
  // The i-th piece it carries. REQUIRES: i < piece_count().
  [[nodiscard]] std::uint32_t piece(std::uint32_t i) const {
    return scattered.empty() ? piece_begin + i : scattered[i];
  }
};

// The messages that group ranks 0 .. turn - 1 send or receive, each group rank's in a list of its
// own, with the `after` of those it sends as indices into that list. Group rank r of n does what
// group rank r mod turn does, with (r - r mod turn) added to each group rank and as many n-ths of
// the pieces to each piece.
struct TurnedMessages {
  std::vector<std::vector<Message>> of_group_rank = {};
  [[nodiscard]] std::uint32_t turn() const {
    return static_cast<std::uint32_t>(of_group_rank.size());
  }
};

// How far the times of phases() and messages() may lie apart where nothing else uses the links, as
// a share of the time of phases(), and why.
struct FluidBound {
  double relative = 1e-3;
  std::string_view reason = "all members go from step to step together";
};

class CollectiveAlgorithm {
 public:
  virtual ~CollectiveAlgorithm() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  // "ring"
  [[nodiscard]] virtual CollectiveOp op() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;
  // Into how many equal pieces messages() cuts the buffer; one per rank unless overridden. Where
  // members own parts of it (all_gather, reduce_scatter), group rank r of n owns the r-th n-th of
  // them. For all_to_all there are n*n pieces and piece source*n + destination is what one member
  // sends another; or c times as many, each such block cut in c.
  [[nodiscard]] virtual std::uint32_t pieces(const GroupPlace& place) const {
    return ranks_of(place);
  }
  // Switches that take part in messages() by reducing or copying what they receive. They have the
  // group ranks after the ranks', hold nothing at the start and need nothing at the end.
  [[nodiscard]] virtual std::vector<DeviceId> switches(const GroupPlace& /*place*/) const {
    return {};
  }
  // Members, the last of the group, that serve the others (dedicated parameter servers): they hold
  // nothing of the collective at the start and need nothing at the end.
  [[nodiscard]] virtual std::uint32_t servers(const GroupPlace& /*place*/) const { return 0; }
  // Do messages() form pipelines? Then what follows a message between the same two on the same
  // channel does not pay the step latency again: it left while the first was under way.
  [[nodiscard]] virtual bool streams() const { return false; }
  // Itself with what stands after a colon in its name: "parameter_server:4". Nothing where it takes
  // no argument; throws InputError for one that it cannot take.
  [[nodiscard]] virtual std::unique_ptr<CollectiveAlgorithm> with_argument(
      std::string_view /*argument*/) const {
    return nullptr;
  }
  // Held for every row by tests/sim/collectives/fluid_stepwise_test.cpp.
  [[nodiscard]] virtual FluidBound fluid_bound(const GroupPlace& /*place*/) const { return {}; }
  // A message of a larger collective ("step"), which nobody chooses by name.
  [[nodiscard]] virtual bool is_part() const { return false; }
  // Members serve the others: another way to train, which only a scenario chooses.
  [[nodiscard]] virtual bool has_servers() const { return false; }
  // The textbook's own, with which others of its operation are compared: a ring, or one partner
  // after the other.
  [[nodiscard]] virtual bool is_plain() const { return false; }
  // Why it cannot run on this group ("hierarchical needs the same number of ranks on every node"),
  // or nothing.
  [[nodiscard]] virtual std::optional<std::string> refusal(const GroupPlace& place) const = 0;
  // REQUIRES: no refusal; more than one rank.
  [[nodiscard]] virtual std::vector<Phase> phases(const GroupPlace& place, Bytes bytes) const = 0;
  [[nodiscard]] virtual std::vector<Message> messages(const GroupPlace& place,
                                                      Bytes bytes) const = 0;
  // The messages of the first members, where all others send the same ones turned; nothing where
  // they do not, or where no override says so. law_test.cpp holds every row to it.
  [[nodiscard]] virtual TurnedMessages turned_messages(const GroupPlace& /*place*/,
                                                       Bytes /*bytes*/) const {
    return {};
  }
};

[[nodiscard]] std::span<const CollectiveAlgorithm* const> collective_algorithms();
// The algorithm of a name: a row of the registry; a row with an argument ("parameter_server:4"); or
// the path of a file that ends in .json or .xml (custom_algorithm.hpp). nullptr when there is none.
// Throws InputError for an argument that cannot be taken, a file that is wrong, and one of another
// operation. What is found stays: pointers are good until the program ends.
[[nodiscard]] const CollectiveAlgorithm* find_algorithm(CollectiveOp op, std::string_view name);

// The algorithm that plays a call on a group. Throws RunError, naming the group and the remedy,
// where the registry has no such algorithm or it refuses the group. A transfer goes "direct", or as
// a "step" where it is one of a collective.
[[nodiscard]] const CollectiveAlgorithm& select_algorithm(const Call& call,
                                                          const GroupPlace& place);

// The CommunicationModel of a cluster: looks the call's algorithm up and asks it. Throws RunError
// where there is no such algorithm or it refuses the group. A send_recv is always "direct", except
// that a "step" (a message that is part of a larger collective) does not pay the launch latency
// again.
class AlgorithmModel final : public CommunicationModel {
 public:
  explicit AlgorithmModel(const Cluster& cluster) : cluster_(cluster) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override;

 private:
  const Cluster& cluster_;
};

// The stepwise model: every collective of the workload replaced by its messages, as sends and
// receives with their dependencies on streams of their own (one to send and one to receive per
// channel). Ranks of one program share one again where all members of their groups do alike
// (turned_messages); every other rank has a program of its own. The launch latency is a Delay at
// the collective's start, where its memory effects at the start also are; a Delay of zero joins its
// last messages, and stands for it to others. Fluid and stepwise runs agree where theory says so
// (README.md). Throws RunError like AlgorithmModel.
//
// `algorithm_of` says which registered algorithm plays a call, where a name leaves a choice
// ("nccl"); without it a call's own name counts.
using AlgorithmOf = std::function<std::string(const Call&, std::span<const std::uint32_t> gpus)>;
[[nodiscard]] Workload expand_collectives(const Workload& workload, const Cluster& cluster,
                                          const AlgorithmOf& algorithm_of = {});

}  // namespace trainyard
