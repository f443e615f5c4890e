// An algorithm of MSCCL's runtime as its XML says it: per GPU, thread blocks that run their steps
// in order, send to one peer and receive from one.
//
//   MscclProgram program = read_msccl_program("ring.xml", text);
//   program.gpus[0].blocks[1].steps[2].kind.sends;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// The effects of a step. MSCCL's letters for its kinds are s, r, rcs, rrc, rrs, rrcs, cpy, re, nop.
struct MscclStepKind {
  bool receives = false;
  bool reduces = false;  // adds what arrives, or what it reads, to the destination
  bool stores = false;   // writes the destination
  bool sends = false;
};

enum class MscclBuffer : std::uint8_t { Input, Output, Scratch };

struct MscclStep {
  std::string type = {};  // as in the file
  MscclStepKind kind = {};
  MscclBuffer source = MscclBuffer::Input;
  MscclBuffer destination = MscclBuffer::Input;
  std::uint32_t source_offset = 0;  // in chunks
  std::uint32_t destination_offset = 0;
  std::uint32_t count = 0;
  std::optional<std::uint32_t> wait_block = {};  // a thread block of the same GPU, by position,
  std::uint32_t wait_step = 0;                   // and the step of it that must be over
};

struct MscclBlock {
  std::uint32_t id = 0;
  std::optional<std::uint32_t> to = {};
  std::optional<std::uint32_t> from = {};
  std::uint32_t channel = 0;
  std::vector<MscclStep> steps = {};
};

struct MscclGpu {
  std::uint32_t scratch_chunks = 0;
  std::vector<MscclBlock> blocks = {};
};

struct MscclProgram {
  std::string file;
  std::string name;
  CollectiveOp op = CollectiveOp::AllReduce;
  bool in_place = false;
  std::uint32_t chunks = 0;  // the larger of the two buffers has so many (nchunksperloop)
  std::vector<MscclGpu> gpus;
};

// Throws InputError for what is no such file, or names GPUs, thread blocks or steps that are not
// there.
[[nodiscard]] MscclProgram read_msccl_program(const std::string& file, const std::string& text);

}  // namespace trainyard
