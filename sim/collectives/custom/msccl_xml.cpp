// Conversion of an MSCCL program to messages (declared in custom_algorithm.hpp).
//
// The program is executed symbolically, chunk by chunk. Each chunk of a buffer records its piece,
// the ranks whose contributions it contains, and the messages that brought them. A send therefore
// determines the pieces and the dependencies of its message. At the end every output chunk must
// contain exactly what the collective requires.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <tuple>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/collectives/custom/custom_algorithm.hpp"
#include "sim/collectives/custom/msccl_program.hpp"

namespace trainyard {

namespace {

// The content of one chunk of a buffer.
struct Chunk {
  bool held = false;
  std::uint32_t piece = 0;
  std::vector<bool> ranks = {};             // ranks whose contributions it contains
  std::vector<std::uint32_t> made_by = {};  // messages that brought these contributions
};

struct Place {
  std::uint32_t gpu = 0;
  std::uint32_t block = 0;
};

// Progress of a thread block.
struct Run {
  std::uint32_t next = 0;                  // index of the next step
  std::uint32_t level = 0;                 // the earliest message step for its next send
  std::vector<std::uint32_t> received;     // messages it has received or waited for
  std::vector<std::uint32_t> level_after;  // by finished step
  std::vector<std::vector<std::uint32_t>> received_after;  // by finished step
};

// Limit of the memory for the lists that are stored for every step: messages whose arrival a step
// has seen, and chunks with their ranks. A program that needs more is refused.
constexpr std::size_t kBytesMost = std::size_t{1} << 30;

struct InFlight {
  std::uint32_t message = 0;
  std::vector<Chunk> chunks;
};

class MscclPlayer {
 public:
  explicit MscclPlayer(const MscclProgram& program)
      : program_(program), ranks_(static_cast<std::uint32_t>(program.gpus.size())) {
    check_shape();
    fill_buffers();
    for (const MscclGpu& gpu : program.gpus) runs_.emplace_back(gpu.blocks.size());
  }

  SendPlan plan() && {
    play();
    check_outputs();
    sort_by_step();
    return {.name = program_.file,
            .summary = fmt::format("MSCCL program {}", program_.name),
            .op = program_.op,
            .ranks = ranks_,
            .pieces = pieces(),
            .messages = std::move(messages_)};
  }

 private:
  [[noreturn]] void refuse(const std::string& where, std::string problem,
                           std::string hint = "") const {
    throw InputError({program_.file, where, std::move(problem), std::move(hint)});
  }
  [[nodiscard]] std::string where(const Place& at) const {
    return fmt::format("/algo/gpu {}/tb {}/step {}", at.gpu, block(at).id, run(at).next);
  }

  [[nodiscard]] const MscclBlock& block(const Place& at) const {
    return program_.gpus[at.gpu].blocks[at.block];
  }
  [[nodiscard]] Run& run(const Place& at) { return runs_[at.gpu][at.block]; }
  [[nodiscard]] const Run& run(const Place& at) const { return runs_[at.gpu][at.block]; }

  [[nodiscard]] bool divide_steps() const {
    return program_.op == CollectiveOp::AllGather || program_.op == CollectiveOp::ReduceScatter ||
           program_.op == CollectiveOp::AllToAll;
  }
  [[nodiscard]] std::uint32_t pieces() const {
    return program_.op == CollectiveOp::AllToAll ? ranks_ * program_.chunks : program_.chunks;
  }
  [[nodiscard]] std::uint32_t per_rank() const { return program_.chunks / ranks_; }

  void check_shape() const;
  void fill_buffers();
  // Adds `bytes` to the memory in use; refuses the program above the limit.
  void take(std::size_t bytes);
  [[nodiscard]] std::size_t chunk_bytes() const { return sizeof(Chunk) + ranks_ / 8; }
  [[nodiscard]] std::uint32_t input_chunks() const {
    return program_.op == CollectiveOp::AllGather ? per_rank() : program_.chunks;
  }
  [[nodiscard]] std::uint32_t output_chunks() const {
    return program_.op == CollectiveOp::ReduceScatter ? per_rank() : program_.chunks;
  }
  [[nodiscard]] std::uint32_t input_piece(std::uint32_t gpu, std::uint32_t offset) const;
  [[nodiscard]] std::uint32_t output_piece(std::uint32_t gpu, std::uint32_t offset) const;
  [[nodiscard]] Chunk& chunk(const Place& at, MscclBuffer buffer, std::uint32_t offset);
  [[nodiscard]] Chunk& output(std::uint32_t gpu, std::uint32_t offset);

  void play();
  bool step(const Place& at);
  [[nodiscard]] std::vector<Chunk> operands(const Place& at, const MscclStep& step);
  [[nodiscard]] std::vector<Chunk> receive(const Place& at, const MscclStep& step);
  void combine(const Place& at, Chunk& into, const Chunk& with) const;
  void send(const Place& at, std::vector<Chunk> chunks);
  void finish(const Place& at);
  [[noreturn]] void report_stuck() const;
  void check_outputs();
  void check_output(std::uint32_t gpu, std::uint32_t offset);
  void sort_by_step();

  const MscclProgram& program_;
  std::uint32_t ranks_;
  // [gpu][buffer]. In an in-placed program, input and output share one buffer (see chunk()).
  std::vector<std::array<std::vector<Chunk>, 3>> buffers_;
  std::vector<std::vector<Run>> runs_;
  // By sender, receiver and channel: connections, which deliver messages first in, first out.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::deque<InFlight>> wires_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> channels_;
  FreeChannels free_channels_;
  std::vector<Message> messages_;
  std::size_t taken_ = 0;  // bytes
};

void MscclPlayer::check_shape() const {
  if (divide_steps() && program_.chunks % ranks_ != 0)
    refuse("/algo", fmt::format("{} chunks are not the same number for each of {} GPUs",
                                program_.chunks, ranks_));
  if (program_.in_place && program_.op == CollectiveOp::AllToAll)
    refuse("/algo", "an alltoall in place is not understood",
           "give it two buffers (inplace=\"0\")");
}

// The piece in an input chunk. GPU g of an all_gather starts with its own pieces; in an all_to_all
// the piece is source * chunks + offset.
std::uint32_t MscclPlayer::input_piece(std::uint32_t gpu, std::uint32_t offset) const {
  if (program_.op == CollectiveOp::AllGather) return gpu * per_rank() + offset;
  if (program_.op == CollectiveOp::AllToAll) return gpu * program_.chunks + offset;
  return offset;
}

// The piece that an output chunk must hold at the end.
std::uint32_t MscclPlayer::output_piece(std::uint32_t gpu, std::uint32_t offset) const {
  if (program_.op == CollectiveOp::ReduceScatter) return gpu * per_rank() + offset;
  if (program_.op != CollectiveOp::AllToAll) return offset;
  const std::uint32_t source = offset / per_rank();
  return source * program_.chunks + gpu * per_rank() + offset % per_rank();
}

void MscclPlayer::take(std::size_t bytes) {
  taken_ += bytes;
  if (taken_ <= kBytesMost) return;
  refuse("/algo",
         fmt::format("to follow {} chunks on each of {} GPUs takes more than {} GiB",
                     program_.chunks, ranks_, kBytesMost >> 30U),
         "give a program of fewer chunks; they may be larger");
}

// In an in-placed program the larger of the two buffers is stored, and the other one is a part of
// it.
void MscclPlayer::fill_buffers() {
  for (const MscclGpu& gpu : program_.gpus)
    take((input_chunks() + output_chunks() + std::size_t{gpu.scratch_chunks}) * chunk_bytes());
  for (std::uint32_t gpu = 0; gpu < ranks_; ++gpu) {
    auto& [input, out, scratch] = buffers_.emplace_back();
    input.resize(input_chunks());
    out.resize(output_chunks());
    scratch.resize(program_.gpus[gpu].scratch_chunks);
    const bool starts_empty = program_.op == CollectiveOp::Broadcast && gpu != 0;
    for (std::uint32_t offset = 0; offset < input_chunks() && !starts_empty; ++offset) {
      Chunk start{.held = true, .piece = input_piece(gpu, offset)};
      start.ranks.assign(ranks_, false);
      start.ranks[gpu] = true;
      chunk({.gpu = gpu}, MscclBuffer::Input, offset) = std::move(start);
    }
  }
}

Chunk& MscclPlayer::chunk(const Place& at, MscclBuffer buffer, std::uint32_t offset) {
  auto& [input, out, scratch] = buffers_[at.gpu];
  std::vector<Chunk>* held = buffer == MscclBuffer::Input    ? &input
                             : buffer == MscclBuffer::Output ? &out
                                                             : &scratch;
  if (offset >= held->size())
    refuse(where(at), fmt::format("uses chunk {} of a buffer of {}", offset, held->size()));
  if (!program_.in_place) return (*held)[offset];
  // In place, an all_gather's input is the GPU's own part of its output, and a reduce_scatter's
  // output is the GPU's own part of its input. All other collectives use the input for both.
  const std::uint32_t own = at.gpu * per_rank();
  if (program_.op == CollectiveOp::AllGather && buffer == MscclBuffer::Input)
    return out[own + offset];
  if (program_.op == CollectiveOp::ReduceScatter && buffer == MscclBuffer::Output)
    return input[own + offset];
  if (!divide_steps() && buffer == MscclBuffer::Output) return input[offset];
  return (*held)[offset];
}

Chunk& MscclPlayer::output(std::uint32_t gpu, std::uint32_t offset) {
  return chunk({.gpu = gpu}, MscclBuffer::Output, offset);
}

// Executes steps until no thread block can proceed. If steps remain then, the program has a
// deadlock; if messages remain, no step receives them.
void MscclPlayer::play() {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t gpu = 0; gpu < ranks_; ++gpu)
      for (std::uint32_t i = 0; i < runs_[gpu].size(); ++i)
        while (step({.gpu = gpu, .block = i})) moved = true;
  }
  for (std::uint32_t gpu = 0; gpu < ranks_; ++gpu)
    for (std::uint32_t i = 0; i < runs_[gpu].size(); ++i)
      if (runs_[gpu][i].next < program_.gpus[gpu].blocks[i].steps.size()) report_stuck();
  for (const auto& [wire, waiting] : wires_)
    if (!waiting.empty())
      refuse("/algo",
             fmt::format("GPU {} sends {} messages to GPU {} on channel {} that no thread "
                         "block receives",
                         std::get<0>(wire), waiting.size(), std::get<1>(wire), std::get<2>(wire)));
}

// Executes the next step of the thread block. Returns false if the step cannot run yet.
bool MscclPlayer::step(const Place& at) {
  Run& here = run(at);
  if (here.next >= block(at).steps.size()) return false;
  const MscclStep& next = block(at).steps[here.next];
  // The step waits until the awaited step is complete. Its messages then follow all messages that
  // the other thread block has received up to that step.
  if (next.wait_block) {
    const Run& other = runs_[at.gpu][*next.wait_block];
    if (other.next <= next.wait_step) return false;
    here.level = std::max(here.level, other.level_after[next.wait_step]);
    const auto& brought = other.received_after[next.wait_step];
    here.received.insert(here.received.end(), brought.begin(), brought.end());
  }
  if (next.kind.receives && wires_[{*block(at).from, at.gpu, block(at).channel}].empty())
    return false;
  if (next.type != "nop") {
    std::vector<Chunk> chunks = operands(at, next);
    if (next.kind.stores)
      for (std::uint32_t i = 0; i < next.count; ++i)
        chunk(at, next.destination, next.destination_offset + i) = chunks[i];
    if (next.kind.sends) send(at, std::move(chunks));
  }
  finish(at);
  return true;
}

void MscclPlayer::finish(const Place& at) {
  Run& here = run(at);
  std::ranges::sort(here.received);
  here.received.erase(std::unique(here.received.begin(), here.received.end()), here.received.end());
  here.level_after.push_back(here.level);
  take(here.received.size() * sizeof(std::uint32_t));
  here.received_after.push_back(here.received);
  ++here.next;
}

// The chunks that the step stores or sends.
std::vector<Chunk> MscclPlayer::operands(const Place& at, const MscclStep& step) {
  std::vector<Chunk> arrived;
  if (step.kind.receives) arrived = receive(at, step);
  if (step.kind.receives && !step.kind.reduces) return arrived;
  std::vector<Chunk> chunks;
  for (std::uint32_t i = 0; i < step.count; ++i) {
    Chunk read = chunk(at, step.source, step.source_offset + i);
    if (!read.held)
      refuse(where(at), fmt::format("{} reads chunk {}, which nothing has been written to",
                                    step.type, step.source_offset + i));
    // `re` adds the chunk that it reads to the chunk that it writes. MSCCL programs use it after an
    // `r` into scratch. A Message has no separate addition, so the message that brought the chunk
    // becomes the one that adds.
    if (step.type == "re") {
      for (const std::uint32_t message : read.made_by) messages_[message].reduce = true;
      combine(at, read, chunk(at, step.destination, step.destination_offset + i));
    }
    if (step.kind.receives) combine(at, read, arrived[i]);
    chunks.push_back(std::move(read));
  }
  return chunks;
}

std::vector<Chunk> MscclPlayer::receive(const Place& at, const MscclStep& step) {
  std::deque<InFlight>& wire = wires_[{*block(at).from, at.gpu, block(at).channel}];
  InFlight arrived = std::move(wire.front());
  wire.pop_front();
  taken_ -= arrived.chunks.size() * chunk_bytes();
  if (arrived.chunks.size() != step.count)
    refuse(where(at), fmt::format("receives {} chunks where GPU {} sends {}", step.count,
                                  *block(at).from, arrived.chunks.size()));
  Message& message = messages_[arrived.message];
  message.reduce = step.kind.reduces;
  Run& here = run(at);
  here.level = std::max(here.level, message.step + 1);
  here.received.push_back(arrived.message);
  // The messages that made the chunk at its sender are in this message's `after`, so the chunk
  // depends on this message alone.
  for (Chunk& chunk : arrived.chunks) chunk.made_by = {arrived.message};
  return std::move(arrived.chunks);
}

void MscclPlayer::combine(const Place& at, Chunk& into, const Chunk& with) const {
  if (!with.held) refuse(where(at), "adds to a chunk that nothing has been written to");
  if (into.piece != with.piece)
    refuse(where(at), fmt::format("adds piece {} to piece {}", with.piece, into.piece));
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    if (into.ranks[rank] && with.ranks[rank])
      refuse(where(at), fmt::format("adds the contribution of rank {} to piece {} a second time",
                                    rank, into.piece));
    into.ranks[rank] = into.ranks[rank] || with.ranks[rank];
  }
  into.made_by.insert(into.made_by.end(), with.made_by.begin(), with.made_by.end());
}

void MscclPlayer::send(const Place& at, std::vector<Chunk> chunks) {
  Run& here = run(at);
  const auto index = static_cast<std::uint32_t>(messages_.size());
  const std::tuple wire{at.gpu, *block(at).to, block(at).channel};
  // A connection of the program (sender, receiver, MSCCL channel) gets its own channel, because a
  // member sends the messages of one channel one after the other.
  const auto [channel, fresh] = channels_.try_emplace(wire, 0);
  if (fresh) channel->second = free_channels_.take(at.gpu, *block(at).to);
  // The message depends on the messages that its thread block received before and on those that
  // made its chunks.
  Message message{
      .from = at.gpu, .to = *block(at).to, .channel = channel->second, .after = here.received};
  for (const Chunk& chunk : chunks) {
    message.scattered.push_back(chunk.piece);
    message.after.insert(message.after.end(), chunk.made_by.begin(), chunk.made_by.end());
  }
  std::ranges::sort(message.scattered);
  if (std::ranges::adjacent_find(message.scattered) != message.scattered.end())
    refuse(where(at), "sends one piece twice in a message");
  std::ranges::sort(message.after);
  message.after.erase(std::unique(message.after.begin(), message.after.end()), message.after.end());
  // The earliest step after all dependencies and after the last message of this thread block.
  message.step = here.level;
  for (const std::uint32_t before : message.after)
    message.step = std::max(message.step, messages_[before].step + 1);
  here.level = message.step + 1;  // the next message of this thread block is in a later step
  messages_.push_back(std::move(message));
  take(chunks.size() * chunk_bytes());
  wires_[wire].push_back({.message = index, .chunks = std::move(chunks)});
}

void MscclPlayer::report_stuck() const {
  for (std::uint32_t gpu = 0; gpu < ranks_; ++gpu) {
    for (std::uint32_t i = 0; i < runs_[gpu].size(); ++i) {
      const Place at{.gpu = gpu, .block = i};
      if (run(at).next >= block(at).steps.size()) continue;
      const MscclStep& next = block(at).steps[run(at).next];
      const bool waits = next.wait_block && runs_[gpu][*next.wait_block].next <= next.wait_step;
      refuse(where(at),
             waits ? fmt::format("waits forever for step {} of thread block {}", next.wait_step,
                                 program_.gpus[gpu].blocks[*next.wait_block].id)
                   : fmt::format("waits forever for a message of GPU {} on channel {}",
                                 *block(at).from, block(at).channel),
             "nothing can run any more");
    }
  }
  refuse("/algo", "nothing can run any more");
}

void MscclPlayer::check_outputs() {
  for (std::uint32_t gpu = 0; gpu < ranks_; ++gpu) {
    if (program_.op == CollectiveOp::Reduce && gpu != 0) continue;
    for (std::uint32_t offset = 0; offset < output_chunks(); ++offset) check_output(gpu, offset);
  }
}

void MscclPlayer::check_output(std::uint32_t gpu, std::uint32_t offset) {
  const Chunk& ends = output(gpu, offset);
  const std::uint32_t piece = output_piece(gpu, offset);
  const bool sums = program_.op == CollectiveOp::AllReduce || program_.op == CollectiveOp::Reduce ||
                    program_.op == CollectiveOp::ReduceScatter;
  const bool has_piece = ends.held && ends.piece == piece;
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < ranks_ && sums; ++rank)
    if (!has_piece || !ends.ranks[rank]) missing.push_back(rank);
  if (has_piece && missing.empty()) return;
  const std::string holds =
      !ends.held   ? "nothing"
      : !has_piece ? fmt::format("piece {}", ends.piece)
                   : fmt::format("it without what comes from ranks {}", fmt::join(missing, ", "));
  refuse(fmt::format("/algo/gpu {}", gpu),
         fmt::format("this is no {}: output chunk {} should hold piece {} and holds {}",
                     to_string(program_.op), offset, piece, holds));
}

// Message steps must not decrease in the list. Each message is in a later step than its
// dependencies, so a stable sort by step keeps every dependency before its message.
void MscclPlayer::sort_by_step() {
  std::vector<std::uint32_t> order(messages_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return messages_[i].step; });
  std::vector<std::uint32_t> placed(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) placed[order[i]] = i;
  std::vector<Message> sorted;
  for (const std::uint32_t i : order) {
    Message message = std::move(messages_[i]);
    for (std::uint32_t& before : message.after) before = placed[before];
    std::ranges::sort(message.after);
    sorted.push_back(std::move(message));
  }
  messages_ = std::move(sorted);
}

}  // namespace

SendPlan parse_msccl_xml(const std::string& name, const std::string& text) {
  const MscclProgram program = read_msccl_program(name, text);
  SendPlan plan = MscclPlayer(program).plan();
  if (plan.messages.empty())
    throw InputError({name, "/algo", "no thread block sends anything", "it moves no bytes"});
  return plan;
}

SendPlan read_msccl_xml(const std::filesystem::path& file) {
  return parse_msccl_xml(file.string(), read_file(file));
}

}  // namespace trainyard
