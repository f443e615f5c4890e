#include "models/lower/messages.hpp"

namespace trainyard {

ChosenCall PeerMessages::call_of(const PeerMessage& message) const {
  return {.call = TransferCall{.bytes = message.bytes,
                               .dtype = shape_.dtype,
                               .algorithm = options_.algorithm.name},
          .field = options_.algorithm.field};
}

OpIndex PeerMessages::send(const PeerMessage& message, OpIndex after) {
  const bool forward = message.pass == Pass::Forward;
  const OpIndex sent = build_.send(forward ? "send_forward" : "send_backward", message.stream,
                                   message.slot, call_of(message), {after});
  if (!options_.overlap) build_.wait_for(sent);
  return sent;
}

OpIndex PeerMessages::receive(const PeerMessage& message, OpIndex posted_after) {
  const bool forward = message.pass == Pass::Forward;
  const OpIndex received = build_.recv(forward ? "recv_forward" : "recv_backward", message.stream,
                                       message.slot, call_of(message), {posted_after});
  build_.wait_for(received);
  return received;
}

// Without overlap, the receives of this step are posted after the previous step with messages, on a
// ring after the step before that (messages.hpp).
void StageMessages::begin_step() {
  posted_after_ = options_.ring ? ended_.before : ended_.latest;
  ended_.before = ended_.latest;
}

void StageMessages::receive(const StageChunk& chunk, Pass pass) {
  const bool forward = pass == Pass::Forward;
  const bool comes = forward ? layout_.receives_from_rank(chunk) : layout_.goes_to_rank(chunk);
  if (!comes) return;  // the neighbouring stage is on this rank, or there is none
  const std::int64_t end_of_ring = forward ? 0 : options_.ranks - 1;
  const bool comes_round = options_.ring && chunk.place.rank == end_of_ring;
  const bool reverse = layout_.backwards(chunk);
  const Stream stream = forward ? (reverse ? Stream::RecvForwardReverse : Stream::RecvForward)
                                : (reverse ? Stream::RecvBackwardReverse : Stream::RecvBackward);
  const Slot slot = forward ? (reverse ? Slot::RecvForwardReverse : Slot::RecvForward)
                            : (reverse ? Slot::RecvBackwardReverse : Slot::RecvBackward);
  const OpIndex message =
      peers_.receive({.pass = pass, .stream = stream, .slot = slot, .bytes = shape_.boundary},
                     options_.overlap || comes_round ? kNone : posted_after_);
  if (shape_.boundary == shape_.message || shape_.sequence_parallel) return;
  // Scatter/gather: each tensor rank has received 1/t of the message, and the group gathers all of
  // it (Narayanan et al. 2104.04473 section 4.1). With sequence parallelism each rank needs only
  // its own rows.
  const ChosenCall gather{.call = CollectiveCall{.op = CollectiveOp::AllGather,
                                                 .bytes = shape_.message,
                                                 .dtype = shape_.dtype,
                                                 .algorithm = options_.gather_algorithm.name},
                          .field = options_.gather_algorithm.field};
  build_.wait_for(build_.collective("scatter_gather_all_gather", Stream::Tensor, Slot::Tensor,
                                    gather, {message}));
}

void StageMessages::send(const StageChunk& chunk, Pass pass) {
  const bool forward = pass == Pass::Forward;
  const bool goes = forward ? layout_.goes_to_rank(chunk) : layout_.receives_from_rank(chunk);
  if (!goes) return;
  const bool reverse = layout_.backwards(chunk);
  const Stream stream = forward ? (reverse ? Stream::SendForwardReverse : Stream::SendForward)
                                : (reverse ? Stream::SendBackwardReverse : Stream::SendBackward);
  const Slot slot = forward ? (reverse ? Slot::SendForwardReverse : Slot::SendForward)
                            : (reverse ? Slot::SendBackwardReverse : Slot::SendBackward);
  peers_.send({.pass = pass, .stream = stream, .slot = slot, .bytes = shape_.boundary},
              build_.last_compute());
}

}  // namespace trainyard
