// Where the model's stages live: which virtual stage a (rank, chunk) holds and who follows it.
//
//   Wrap           chunk k of rank r holds stage k*p + r; the last rank hands over to the first
//   Vee            chunk 0 runs down the ranks, chunk 1 back up: stages r and 2p-1-r
//   Bidirectional  p stages, each held twice: by chunk 0 of rank r and by chunk 1 of rank p-1-r;
//                  the first half of the microbatches enters at rank 0, the second at rank p-1
//
//   const PipelineShape vee{.stages = 4, .chunks = 2, .placement = StagePlacement::Vee};
//   stage_of(vee, {.rank = 1, .chunk = 1});   // 6
#pragma once

#include <cstdint>
#include <optional>

namespace trainyard {

enum class StagePlacement : std::uint8_t { Wrap, Vee, Bidirectional };

// Seconds of one step of one chunk, for schedules that plan with times.
struct StepCosts {
  double forward_s = 1.0;
  double input_s = 1.0;   // input-gradient part of the backward
  double weight_s = 1.0;  // weight-gradient part
  double transfer_s = 0.0;
};

struct PipelineShape {
  std::int64_t stages = 1;            // pipeline ranks, p
  std::int64_t microbatches = 1;      // m
  std::int64_t chunks = 1;            // model chunks of a rank, v
  std::int64_t group_size = 0;        // interleaved: microbatches per group, 0 means `stages`
  std::int64_t activation_limit = 0;  // zb_auto: chunk activations a rank may hold, 0 its own
  StagePlacement placement = StagePlacement::Wrap;  // the schedule's, see placed()
  StepCosts costs = {};                             // zb_auto plans with them, zb_v chooses by them
};

// One chunk of one rank.
struct ChunkPlace {
  std::int64_t rank = 0;
  std::int64_t chunk = 0;
  bool operator==(const ChunkPlace&) const = default;
};

// Stages the model is cut into: p*v, or p where two directions share them.
[[nodiscard]] std::int64_t virtual_stages(const PipelineShape& shape);
// REQUIRES: the place is within the shape.
[[nodiscard]] std::int64_t stage_of(const PipelineShape& shape, const ChunkPlace& place);
// Who holds the stage; where two do, the one that `neighbour`'s microbatches pass through.
[[nodiscard]] ChunkPlace place_of(const PipelineShape& shape, std::int64_t stage,
                                  const ChunkPlace& neighbour);
// The place whose output `place` reads in the forward, or that reads its output; nothing at the
// ends of the model.
[[nodiscard]] std::optional<ChunkPlace> place_before(const PipelineShape& shape,
                                                     const ChunkPlace& place);
[[nodiscard]] std::optional<ChunkPlace> place_after(const PipelineShape& shape,
                                                    const ChunkPlace& place);
// Activations of the chunk go from higher ranks to lower ones.
[[nodiscard]] bool runs_backwards(const PipelineShape& shape, std::int64_t chunk);

// Microbatches that pass through a chunk: all, or its direction's half.
struct MicrobatchRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
[[nodiscard]] MicrobatchRange microbatches_of(const PipelineShape& shape, std::int64_t chunk);
// Steps of a rank that make up one microbatch through its whole share of layers: the chunks, or 1
// where each chunk is a whole share.
[[nodiscard]] std::int64_t chunks_per_share(const PipelineShape& shape);

}  // namespace trainyard
