// Interface of the collective algorithms, and the registry that finds them by name.
//
// An algorithm has two forms that must agree: phases of flows for the fluid model, and
// point-to-point messages for the stepwise model. It is one source file and one entry of the
// registry. It receives a group of ranks, the GPUs on which they run, and a size in bytes. It
// returns phases of flows (sim/cluster/communication_model.hpp) or the messages that a real
// implementation sends. Tests over every registered algorithm are in tests/sim/collectives.
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

// The members of a group as GPUs of a cluster, indexed by group rank.
struct PlacedGroup {
  const Cluster& cluster;
  std::span<const std::uint32_t> gpus;
  // CollectiveCall::matrix; empty: every member sends the same number of bytes to every other one.
  std::span<const std::int64_t> matrix = {};
};

[[nodiscard]] inline std::uint32_t ranks_of(const PlacedGroup& placed) {
  return static_cast<std::uint32_t>(placed.gpus.size());
}

// One message. Its content is what the sender held at the start, with the messages listed in
// `after` applied in order. `after` holds indices of earlier messages that the sender has received;
// a message depends on nothing else.
struct Message {
  // Group rank in the group. From the number of ranks on, the number denotes a switch (switches()).
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  double bytes = 0.0;
  std::uint32_t step = 0;  // messages of one step may run concurrently
  // A member sends the messages of one channel one after the other, and so it receives them.
  std::uint32_t channel = 0;
  bool reduce = false;            // the receiver adds the arriving data to its own
  std::uint32_t piece_begin = 0;  // first of the equal pieces that the message carries (pieces())
  std::uint32_t piece_end = 0;
  std::vector<std::uint32_t> after = {};
  // Pieces that do not form a range, in ascending order; piece_begin and piece_end are then
  // ignored.
  std::vector<std::uint32_t> scattered = {};

  [[nodiscard]] std::uint32_t piece_count() const {
    return scattered.empty() ? piece_end - piece_begin
                             : static_cast<std::uint32_t>(scattered.size());
  }
  // The i-th piece that the message carries. REQUIRES: i < piece_count().
  [[nodiscard]] std::uint32_t piece(std::uint32_t i) const {
    return scattered.empty() ? piece_begin + i : scattered[i];
  }
};

// The messages of a collective that is symmetric under a rotation of the group ranks. Only the
// messages of group ranks 0 .. turn - 1 are listed, one list per group rank, with the messages that
// this rank sends or receives. The `after` of the messages that it sends are indices into the same
// list. Group rank r of n sends and receives the messages of group rank r mod turn, where d = r - r
// mod turn is added to each group rank, and the same fraction d/n of all pieces is added to each
// piece.
struct RotatedMessages {
  std::vector<std::vector<Message>> of_group_rank = {};
  [[nodiscard]] std::uint32_t turn() const {
    return static_cast<std::uint32_t>(of_group_rank.size());
  }
};

// The largest difference between the times of phases() and messages() on otherwise idle links, as a
// fraction of the time of phases(), and its cause.
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
  // Number of equal pieces into which messages() cuts the buffer; one per rank unless overridden.
  // Where members own parts of the buffer (all_gather, reduce_scatter), group rank r of n owns the
  // r-th n-th of the pieces. For all_to_all there are n*n pieces, and piece source*n + destination
  // is the block that one member sends to another; or there are c times as many, and each block is
  // cut into c pieces.
  [[nodiscard]] virtual std::uint32_t pieces(const PlacedGroup& placed) const {
    return ranks_of(placed);
  }
  // Switches that take part in messages() because they reduce or copy the data that they receive.
  // Their group ranks follow those of the ranks. They hold no data at the start and need none at
  // the end.
  [[nodiscard]] virtual std::vector<DeviceId> switches(const PlacedGroup& /*placed*/) const {
    return {};
  }
  // Number of members that only serve the others (dedicated parameter servers). They are the last
  // members of the group. They hold no data of the collective at the start and need none at the
  // end.
  [[nodiscard]] virtual std::uint32_t servers(const PlacedGroup& /*placed*/) const { return 0; }
  // True if messages() form pipelines. A message that follows another one between the same two
  // members on the same channel then does not pay the step latency: it was sent while the earlier
  // one was in transit.
  [[nodiscard]] virtual bool streams() const { return false; }
  // This algorithm with the argument that follows a colon in its name: "parameter_server:4".
  // Returns nullptr if the algorithm takes no argument; throws InputError for an argument that it
  // cannot take.
  [[nodiscard]] virtual std::unique_ptr<CollectiveAlgorithm> with_argument(
      std::string_view /*argument*/) const {
    return nullptr;
  }
  // tests/sim/collectives/fluid_stepwise_test.cpp checks this bound for every registered algorithm.
  [[nodiscard]] virtual FluidBound fluid_bound(const PlacedGroup& /*placed*/) const { return {}; }
  // True for an algorithm that carries one message of a larger collective ("step"); no user selects
  // it by name.
  [[nodiscard]] virtual bool is_part() const { return false; }
  // True if some members serve the others. This is another way to train, so only a scenario selects
  // it.
  [[nodiscard]] virtual bool has_servers() const { return false; }
  // True for the textbook algorithm with which the other algorithms of its operation are compared:
  // a ring, or one partner after the other.
  [[nodiscard]] virtual bool is_plain() const { return false; }
  // The reason why the algorithm cannot run on this group ("hierarchical needs the same number of
  // ranks on every node"), or nothing if it can.
  [[nodiscard]] virtual std::optional<std::string> refusal(const PlacedGroup& placed) const = 0;
  // REQUIRES: no refusal; more than one rank.
  [[nodiscard]] virtual std::vector<Phase> phases(const PlacedGroup& placed, Bytes bytes) const = 0;
  [[nodiscard]] virtual std::vector<Message> messages(const PlacedGroup& placed,
                                                      Bytes bytes) const = 0;
  // The messages of the first members, where the messages of all others are the same up to a
  // rotation. Empty where they are not, or where the algorithm does not override this function.
  // law_test.cpp checks it for every registered algorithm.
  [[nodiscard]] virtual RotatedMessages rotated_messages(const PlacedGroup& /*placed*/,
                                                         Bytes /*bytes*/) const {
    return {};
  }
};

[[nodiscard]] std::span<const CollectiveAlgorithm* const> collective_algorithms();
// The algorithm with this name. The name is an entry of the registry, an entry with an argument
// ("parameter_server:4"), or the path of a file that ends in .json or .xml (custom_algorithm.hpp).
// Returns nullptr if there is none. Throws InputError for an argument that the algorithm cannot
// take, for a file with errors, and for a file that describes another operation. The pointer stays
// valid until the program ends.
[[nodiscard]] const CollectiveAlgorithm* find_algorithm(CollectiveOp op, std::string_view name);

// The algorithm that carries a call on a group. Throws RunError, with the group and a remedy, if
// the registry has no such algorithm or if the algorithm refuses the group. A transfer uses
// "direct", or "step" if it is one message of a larger collective.
[[nodiscard]] const CollectiveAlgorithm& select_algorithm(const Call& call,
                                                          const PlacedGroup& placed);

// The CommunicationModel of a cluster: it finds the algorithm of the call and returns its phases.
// Throws RunError if there is no such algorithm or if it refuses the group. A send_recv always uses
// "direct"; one message of a larger collective uses "step", which does not pay the launch latency.
class AlgorithmModel final : public CommunicationModel {
 public:
  explicit AlgorithmModel(const Cluster& cluster) : cluster_(cluster) {}
  [[nodiscard]] std::vector<Phase> phases(const Call& call,
                                          std::span<const std::uint32_t> gpus) const override;

 private:
  const Cluster& cluster_;
};

// The stepwise model: it replaces every collective of the workload by its messages. They become
// sends and receives with their dependencies on separate streams, one for sends and one for
// receives per channel. Ranks of one program share one expanded program if all members of their
// groups send the same messages up to a rotation (rotated_messages); every other rank gets its own
// program. The launch latency is a Delay at the start of the collective, which also carries the
// memory effects at the start. A Delay of zero joins the last messages; later operations depend on
// it. README.md says where fluid and stepwise runs agree. Throws RunError like AlgorithmModel.
//
// `algorithm_of` selects the registered algorithm of a call where the name leaves a choice
// ("nccl"); without it the name in the call is used.
using AlgorithmOf = std::function<std::string(const Call&, std::span<const std::uint32_t> gpus)>;
[[nodiscard]] Workload expand_collectives(const Workload& workload, const Cluster& cluster,
                                          const AlgorithmOf& algorithm_of = {});

}  // namespace trainyard
