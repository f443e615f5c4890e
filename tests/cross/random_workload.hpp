// Small random workloads that never deadlock, to compare engines.
//
// All work is drawn as a sequence of events (a kernel of a stage, a collective of all its tensor
// groups, a message from one stage to another, a ring of messages), and every program gets its
// operations in this order. Every dependency therefore refers to an earlier event, and the sequence
// itself is a valid order of execution. Each kind of group has a separate stream, so communication
// overlaps.
//
//    Workload workload = random_workload({.seed = 7, .ranks = 16});
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/workload/workload.hpp"
#include "tests/sim/workload/hand_workload.hpp"

namespace trainyard::test {

struct RandomShape {
  std::uint32_t seed = 0;
  std::uint32_t ranks = 16;  // a power of two, 2 or more
  std::uint32_t events = 24;
  bool odd_rank = false;        // one rank does more than the others
  std::uint32_t swaps = 0;      // pairs of ranks that swapped GPUs
  std::uint32_t exchanges = 0;  // uneven all_to_alls, as of experts with uneven load
};

class RandomWorkload {
 public:
  explicit RandomWorkload(const RandomShape& shape) : shape_(shape), random_(shape.seed) {
    while (tensor_ * 2 <= std::min(8U, shape.ranks) && draw(2) == 0) tensor_ *= 2;
    while (tensor_ * stages_ * 2 <= shape.ranks && stages_ < 4 && draw(2) == 0) stages_ *= 2;
    data_ = shape.ranks / tensor_ / stages_;
    odd_rank_ = RankId{shape.odd_rank ? draw(shape.ranks) : kNone};
  }

  Workload write() {
    for (std::uint32_t stage = 0; stage < stages_; ++stage) add_program(stage, "stage ");
    if (odd_rank_ != kNone) add_program(stage_of(odd_rank_), "odd one of stage ");
    for (std::uint32_t i = 0; i < shape_.events; ++i) add_event();
    for (std::uint32_t i = 0; i < shape_.exchanges; ++i) add_exchange(draw(stages_));
    std::vector<std::uint32_t> gpus(shape_.ranks);
    std::iota(gpus.begin(), gpus.end(), 0U);
    for (std::uint32_t i = 0; i < shape_.swaps; ++i) {
      std::swap(gpus[draw(shape_.ranks)], gpus[draw(shape_.ranks)]);
    }
    for (RankId rank = 0; rank < shape_.ranks; ++rank) {
      add_rank(workload_, rank == odd_rank_ ? stages_ : stage_of(rank), gpus[rank]);
    }
    for (const auto& bind : bindings_) bind();
    return std::move(workload_);
  }

 private:
  std::uint32_t draw(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  [[nodiscard]] std::uint32_t per_stage() const { return tensor_ * data_; }
  [[nodiscard]] std::uint32_t stage_of(RankId rank) const { return rank / per_stage(); }

  void add_program(std::uint32_t stage, const std::string& name) {
    programs_.emplace_back(workload_, name + std::to_string(stage), stage);
    stage_of_program_.push_back(stage);
  }

  // Calls `write` for every program of the stage, with a few of its latest operations as
  // dependencies. All programs depend on operations with the same distance.
  template <class Write>
  void each_program(std::uint32_t stage, Write write) {
    const std::uint32_t back = draw(4);
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      if (stage_of_program_[i] != stage) continue;
      const std::size_t written = workload_.programs[i].operations.size();
      std::vector<OpIndex> after;
      if (back > 0 && written >= back) after.push_back(static_cast<OpIndex>(written - back));
      write(programs_[i], i, after);
    }
  }

  void add_event() {
    const std::uint32_t stage = draw(stages_);
    switch (draw(6)) {
      case 0:
      case 1:
        return add_kernel(stage);
      case 2:
        return add_collective(stage, true);
      case 3:
        return add_collective(stage, false);
      case 4:
        return add_message(stage, draw(stages_));
      default:
        return add_ring(stage);
    }
  }

  void add_kernel(std::uint32_t stage) {
    const std::int64_t m = 64 * (1 + draw(50));
    const bool pause = draw(4) == 0;
    each_program(stage, [&](ProgramWriter& program, std::size_t index, const auto& after) {
      const bool odd = index >= stages_;
      if (pause) {
        program.delay("pause", 1e-6 * static_cast<double>(m), after);
      } else {
        program.compute("kernel", odd ? m + 32 : m, after);
      }
    });
  }

  void add_collective(std::uint32_t stage, bool over_tensor) {
    const std::uint32_t size = over_tensor ? tensor_ : data_;
    if (size == 1) return;
    static const std::vector<std::pair<CollectiveOp, std::string>> kinds = {
        {CollectiveOp::AllReduce, "ring"},     {CollectiveOp::AllGather, "ring"},
        {CollectiveOp::ReduceScatter, "ring"}, {CollectiveOp::AllReduce, "halving_doubling"},
        {CollectiveOp::AllToAll, "pairwise"},  {CollectiveOp::AllToAll, "direct"},
        {CollectiveOp::AllReduce, "tree"}};
    const auto& [op, algorithm] = kinds[draw(static_cast<std::uint32_t>(kinds.size()))];
    const CollectiveCall call{
        .op = op, .bytes = 1'048'576LL * (1 + draw(64)), .algorithm = algorithm};
    const std::string slot = over_tensor ? "tensor" : "data";
    each_program(stage, [&](ProgramWriter& program, std::size_t, const auto& after) {
      program.collective(slot, slot, call, after);
    });
    bind_grid_once(stage, over_tensor, slot);
  }

  void bind_grid_once(std::uint32_t stage, bool over_tensor, const std::string& slot) {
    if (bound_.insert({slot, stage}).second) {
      bindings_.emplace_back(
          [this, stage, over_tensor, slot] { bind_grid(stage, over_tensor, slot); });
    }
  }

  // Every member sends sixteen pieces to the others at random. Equal sums keep the shares of links
  // small integers, which engines need not round.
  void add_exchange(std::uint32_t stage) {
    const bool over_tensor = tensor_ > 1 && (data_ == 1 || draw(2) == 0);
    const std::uint32_t size = over_tensor ? tensor_ : data_;
    if (size == 1) return;
    constexpr std::int64_t kPiece = 262'144;
    constexpr std::uint32_t kPieces = 16;
    CollectiveCall call{
        .op = CollectiveOp::AllToAll, .bytes = kPieces * kPiece, .algorithm = "direct"};
    call.matrix.assign(std::size_t{size} * size, 0);
    for (std::uint32_t from = 0; from < size; ++from) {
      for (std::uint32_t piece = 0; piece < kPieces; ++piece) {
        const std::uint32_t to = (from + 1 + draw(size - 1)) % size;
        call.matrix[std::size_t{from} * size + to] += kPiece;
      }
    }
    const std::string slot = over_tensor ? "tensor" : "data";
    each_program(stage, [&](ProgramWriter& program, std::size_t, const auto& after) {
      program.collective(slot, slot, call, after);
    });
    bind_grid_once(stage, over_tensor, slot);
  }

  void bind_grid(std::uint32_t stage, bool over_tensor, const std::string& slot) {
    const std::uint32_t first = stage * per_stage();
    for (std::uint32_t i = 0; i < (over_tensor ? data_ : tensor_); ++i) {
      std::vector<RankId> members;
      for (std::uint32_t j = 0; j < (over_tensor ? tensor_ : data_); ++j) {
        members.push_back(RankId{first + (over_tensor ? i * tensor_ + j : j * tensor_ + i)});
      }
      add_group(workload_, over_tensor ? GroupKind::Tensor : GroupKind::Data, members, {slot});
    }
  }

  // A message from every rank of a stage to the rank with the same index in another stage.
  void add_message(std::uint32_t from, std::uint32_t to) {
    if (from == to) return;
    const std::int64_t bytes = 1'048'576LL * (1 + draw(16));
    const std::string out = "to " + std::to_string(to) + " from " + std::to_string(from);
    const std::string in = "of " + out;
    each_program(from, [&](ProgramWriter& program, std::size_t, const auto& after) {
      program.send("send", out, bytes, after);
    });
    each_program(to, [&](ProgramWriter& program, std::size_t, const auto& after) {
      program.receive("receive", in, bytes, after);
    });
    if (!bound_.insert({out, 0}).second) return;
    bindings_.emplace_back([this, from, to, out, in] {
      for (std::uint32_t i = 0; i < per_stage(); ++i) {
        add_group(workload_, GroupKind::Pipeline,
                  {RankId{from * per_stage() + i}, RankId{to * per_stage() + i}}, {out, in});
      }
    });
  }

  // Every rank of the stage sends to the next rank of the stage.
  void add_ring(std::uint32_t stage) {
    if (per_stage() < 2) return;
    const std::int64_t bytes = 1'048'576LL * (1 + draw(16));
    each_program(stage, [&](ProgramWriter& program, std::size_t, const auto& after) {
      program.send("send", "to next", bytes, after);
      program.receive("receive", "from previous", bytes, after);
    });
    if (!bound_.insert({"ring", stage}).second) return;
    bindings_.emplace_back([this, stage] {
      for (std::uint32_t i = 0; i < per_stage(); ++i) {
        const std::uint32_t first = stage * per_stage();
        add_group(workload_, GroupKind::Context,
                  {RankId{first + i}, RankId{first + (i + 1) % per_stage()}},
                  {"to next", "from previous"});
      }
    });
  }

  RandomShape shape_;
  std::mt19937 random_;
  std::uint32_t tensor_ = 1;
  std::uint32_t stages_ = 1;
  std::uint32_t data_ = 1;
  RankId odd_rank_ = kNone;
  Workload workload_ = empty_workload();
  std::vector<ProgramWriter> programs_;
  std::vector<std::uint32_t> stage_of_program_;
  std::set<std::pair<std::string, std::uint32_t>> bound_;
  std::vector<std::function<void()>> bindings_;  // group bindings, applied once the ranks exist
};

inline Workload random_workload(const RandomShape& shape) { return RandomWorkload(shape).write(); }

}  // namespace trainyard::test
