#include "models/lower/messages.hpp"

#include <algorithm>

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
  if (!options_.parallelism.overlap_p2p) build_.wait_for(sent);
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
  posted_after_ = options_.parallelism.interleave > 1 ? ended_.before : ended_.latest;
  ended_.before = ended_.latest;
}

void StageMessages::receive(const StageChunk& chunk, Pass pass) {
  const bool forward = pass == Pass::Forward;
  const bool comes = forward ? layout_.receives_from_rank(chunk) : layout_.goes_to_rank(chunk);
  if (!comes) return;  // the neighbouring stage is on this rank, or there is none
  const Parallelism& p = options_.parallelism;
  const std::int64_t end_of_ring = forward ? 0 : p.pipeline - 1;
  const bool comes_round = p.interleave > 1 && chunk.place.rank == end_of_ring;
  const bool reverse = layout_.backwards(chunk);
  const Stream stream = forward ? (reverse ? Stream::RecvForwardReverse : Stream::RecvForward)
                                : (reverse ? Stream::RecvBackwardReverse : Stream::RecvBackward);
  const PeerUse use = forward ? PeerUse::RecvForward : PeerUse::RecvBackward;
  const Slot back = forward ? Slot::RecvForwardReverse : Slot::RecvBackwardReverse;
  const Pieces parts = pieces(chunk, !forward);
  OpIndex received = kNone;
  for (std::int64_t piece = 0; piece < parts.count; ++piece)
    received = peers_.receive({.pass = pass,
                               .stream = stream,
                               .slot = reverse ? back : piece_slot(use, piece),
                               .bytes = parts.bytes},
                              p.overlap_p2p || comes_round ? kNone : posted_after_);
  gather_shares(parts, received);
}

StageMessages::Pieces StageMessages::pieces(const StageChunk& chunk, bool with_next) const {
  const Parallelism& p = options_.parallelism;
  const std::int64_t neighbour = chunk.place.rank + (with_next ? 1 : p.pipeline - 1);
  const std::int64_t there = p.tensor_of(neighbour % p.pipeline);
  // Where every rank sends all of it, ranks of a smaller stage would receive it several times.
  const bool whole = !p.sequence_parallel && !p.scatter_gather && there == shape_.tensor;
  if (whole) return {.count = 1, .bytes = shape_.message};
  const std::int64_t most = std::max(shape_.tensor, there);
  return {.count = most / shape_.tensor, .bytes = shape_.message / most};
}

// Scatter/gather: each tensor rank has received its share of the message, and the group gathers all
// of it (Narayanan et al. 2104.04473 section 4.1). With sequence parallelism each rank needs only
// its own rows.
void StageMessages::gather_shares(const Pieces& pieces, OpIndex received) {
  if (shape_.sequence_parallel || pieces.count * pieces.bytes == shape_.message) return;
  const ChosenCall gather{.call = CollectiveCall{.op = CollectiveOp::AllGather,
                                                 .bytes = shape_.message,
                                                 .dtype = shape_.dtype,
                                                 .algorithm = options_.gather_algorithm.name},
                          .field = options_.gather_algorithm.field};
  build_.wait_for(build_.collective("scatter_gather_all_gather", Stream::Tensor, Slot::Tensor,
                                    gather, {received}));
}

void StageMessages::send(const StageChunk& chunk, Pass pass) {
  const bool forward = pass == Pass::Forward;
  const bool goes = forward ? layout_.goes_to_rank(chunk) : layout_.receives_from_rank(chunk);
  if (!goes) return;
  const bool reverse = layout_.backwards(chunk);
  const Stream stream = forward ? (reverse ? Stream::SendForwardReverse : Stream::SendForward)
                                : (reverse ? Stream::SendBackwardReverse : Stream::SendBackward);
  const PeerUse use = forward ? PeerUse::SendForward : PeerUse::SendBackward;
  const Slot back = forward ? Slot::SendForwardReverse : Slot::SendBackwardReverse;
  const Pieces parts = pieces(chunk, forward);
  for (std::int64_t piece = 0; piece < parts.count; ++piece)
    peers_.send({.pass = pass,
                 .stream = stream,
                 .slot = reverse ? back : piece_slot(use, piece),
                 .bytes = parts.bytes},
                build_.last_compute());
}

}  // namespace trainyard
