// Messages between the ranks that hold consecutive parts of the model: activations forward, their
// gradients back.
//
//   messages.begin_step();  messages.receive(chunk, Pass::Forward);  ...
//   messages.send(chunk, Pass::Forward);  messages.end_step();
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "models/lower/program_builder.hpp"
#include "models/lower/stage_layout.hpp"
#include "models/lower/step_shape.hpp"

namespace trainyard {

// How ranks exchange what crosses between them.
struct MessageOptions {
  bool overlap = true;  // computation does not wait for a message that it does not need
  bool ring = false;    // several chunks a rank, so that the last rank hands over to the first
  std::int64_t ranks = 1;
  ChosenAlgorithm algorithm = {};         // of a message: NCCL's send/recv, or "direct"
  ChosenAlgorithm gather_algorithm = {};  // of the tensor group, that puts its shares together
};

// A message's slot and stream, and what travels.
struct PeerMessage {
  Pass pass = Pass::Forward;
  Stream stream = Stream::SendForward;
  Slot slot = Slot::SendForward;
  std::int64_t bytes = 0;
};

// Messages to and from one peer after the other.
class PeerMessages {
 public:
  PeerMessages(const MessageOptions& options, const StepShape& shape, ProgramBuilder& build)
      : options_(options), shape_(shape), build_(build) {}

  // Sends once `after` is done. Without overlap the next computation waits for the message.
  OpIndex send(const PeerMessage& message, OpIndex after);
  // The next computation waits for it. `posted_after`: the operation behind which it may be posted;
  // kNone: at once.
  OpIndex receive(const PeerMessage& message, OpIndex posted_after);

 private:
  [[nodiscard]] ChosenCall call_of(const PeerMessage& message) const;

  const MessageOptions& options_;
  const StepShape& shape_;
  ProgramBuilder& build_;
};

// Messages of a pipeline rank to and from the ranks that hold the stages before and after its own.
//
// Overlapped, a receive is posted as early as its stream allows; else when the step before is done.
// Where stages form a ring each would then wait for its own send before it posts what its neighbour
// sends, so interleaved stages post one step ahead, as Megatron-LM does with one exchange for the
// sends of a forward and a backward and the receives of the next two. What comes round from the
// other end of the pipeline is taken at the pace of its sender, which may be a group of
// microbatches before it is used. A weight gradient exchanges nothing and holds up no receive.
class StageMessages {
 public:
  StageMessages(const MessageOptions& options, const StepShape& shape, const StageLayout& layout,
                ProgramBuilder& build)
      : options_(options),
        shape_(shape),
        layout_(layout),
        build_(build),
        peers_(options_, shape, build) {}

  // Around every step that exchanges, and behind two whose operations have been interleaved.
  void begin_step();
  void end_step() { ended_.latest = build_.last_compute(); }
  void end_overlapped() { ended_ = {build_.last_compute(), build_.last_compute()}; }
  // Nothing where the stage before, or after, is on this rank.
  void receive(const StageChunk& chunk, Pass pass);
  void send(const StageChunk& chunk, Pass pass);

  // The last compute operations of the two exchanging steps that ended last. Receives name them.
  struct Ended {
    OpIndex before = kNone;
    OpIndex latest = kNone;
  };
  [[nodiscard]] const Ended& ended() const { return ended_; }
  void set_ended(const Ended& ended) { ended_ = ended; }
  [[nodiscard]] bool receives_name_steps() const { return !options_.overlap; }

 private:
  const MessageOptions& options_;
  const StepShape& shape_;
  const StageLayout& layout_;
  ProgramBuilder& build_;
  PeerMessages peers_;
  OpIndex posted_after_ = kNone;  // when this step's receive may be posted, without overlap
  Ended ended_;
};

}  // namespace trainyard
