// Point-to-point messages between ranks that hold consecutive parts of the model: activations in
// the forward, their gradients in the backward.
//
//    messages.begin_step();
//    messages.receive(chunk, Pass::Forward);
//    layer.forward({.kept = kept});   // once for each layer of the chunk
//    messages.send(chunk, Pass::Forward);
//    messages.end_step();
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "models/lower/program_builder.hpp"
#include "models/lower/stage_layout.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

// How ranks send and receive.
struct MessageOptions {
  const Parallelism& parallelism;         // of the whole model, or of the stage (plan_of_stage)
  ChosenAlgorithm algorithm = {};         // of a message: NCCL's send/recv, or "direct"
  ChosenAlgorithm gather_algorithm = {};  // of the all_gather of shares within the tensor group
};

// The pass, stream, slot and size of a message.
struct PeerMessage {
  Pass pass = Pass::Forward;
  Stream stream = Stream::SendForward;
  Slot slot = Slot::SendForward;
  std::int64_t bytes = 0;
};

// Writes sends and receives with any peer.
class PeerMessages {
 public:
  PeerMessages(const MessageOptions& options, const StepShape& shape, ProgramBuilder& build)
      : options_(options), shape_(shape), build_(build) {}

  // The send starts when `after` has ended. Without overlap, the next computation waits for the
  // send.
  OpIndex send(const PeerMessage& message, OpIndex after);
  // The next computation waits for the receive. `posted_after`: the receive is posted when this
  // operation has ended; kNone: as soon as its stream is free.
  OpIndex receive(const PeerMessage& message, OpIndex posted_after);

 private:
  [[nodiscard]] ChosenCall call_of(const PeerMessage& message) const;

  const MessageOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

// Messages of a pipeline rank to and from the ranks that hold the stages before and after its own.
//
// With overlap, a receive is posted as early as its stream allows. Without overlap, it is posted
// when the previous step has ended. With interleaved stages, which form a ring, this rule would
// make every rank wait for its own send before it posts the receive of its neighbour's message.
// Interleaved stages therefore post a receive one step earlier, as Megatron-LM does with one
// batched call for the sends of a forward and a backward and the receives of the next two. A
// receive from the other end of the pipeline (last rank to first, or first to last) is always
// posted at once, because its sender may send a group of microbatches before the data is used. A
// weight-gradient step has no messages and delays no receive.
//
// Each tensor rank sends its share of an activation to the same tensor rank of the next stage.
// Where the stages have unequal numbers of tensor ranks, the shares are those of the stage with
// more of them: from 2 ranks to 4, each rank sends two quarters, to two ranks.
class StageMessages {
 public:
  StageMessages(const MessageOptions& options, const StepShape& shape, const StageLayout& layout,
                ProgramBuilder& build)
      : options_(options),
        shape_(shape),
        layout_(layout),
        build_(build),
        peers_(options_, shape, build) {}

  // Called at the begin and end of every step that sends or receives, and after two steps whose
  // operations have been interleaved.
  void begin_step();
  void end_step() { ended_.latest = build_.last_compute(); }
  void end_overlapped() { ended_ = {build_.last_compute(), build_.last_compute()}; }
  // Write nothing where the neighbouring stage is on the same rank, or does not exist.
  void receive(const StageChunk& chunk, Pass pass);
  void send(const StageChunk& chunk, Pass pass);

  // The last compute operations of the last two steps with messages. Receives may depend on them.
  struct Ended {
    OpIndex before = kNone;
    OpIndex latest = kNone;
  };
  [[nodiscard]] const Ended& ended() const { return ended_; }
  void set_ended(const Ended& ended) { ended_ = ended; }
  [[nodiscard]] bool receives_name_steps() const { return !options_.parallelism.overlap_p2p; }

 private:
  // The messages in which a rank sends or receives its share of an activation.
  struct Pieces {
    std::int64_t count = 1;
    std::int64_t bytes = 0;  // of each
  };

  [[nodiscard]] Pieces pieces(const StageChunk& chunk, bool with_next) const;
  // Writes the all_gather of shares after a receive, where the rank needs the whole activation.
  void gather_shares(const Pieces& pieces, OpIndex received);

  const MessageOptions& options_;
  const StepShape& shape_;
  const StageLayout& layout_;
  ProgramBuilder& build_;
  PeerMessages peers_;
  OpIndex posted_after_ = kNone;  // without overlap: this step's receive is posted after it
  Ended ended_;
};

}  // namespace trainyard
