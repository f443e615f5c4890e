// An algorithm of MSCCL's runtime, as its XML file describes it. Each GPU has thread blocks. A
// thread block executes its steps in order, sends to at most one peer and receives from at most
// one.
//
//    MscclProgram program = read_msccl_program("ring.xml", text);
//    program.gpus[0].blocks[1].steps[2].kind.sends;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/workload/workload.hpp"

namespace trainyard {

// The effects of a step. MSCCL names the kinds s, r, rcs, rrc, rrs, rrcs, cpy, re and nop.
struct MscclStepKind {
  bool receives = false;
  bool reduces = false;  // adds the received data, or the data that it reads, to the destination
  bool stores = false;   // writes the destination
  bool sends = false;
};

enum class MscclBuffer : std::uint8_t { Input, Output, Scratch };

struct MscclStep {
  std::string type = {};  // the name in the file
  MscclStepKind kind = {};
  MscclBuffer source = MscclBuffer::Input;
  MscclBuffer destination = MscclBuffer::Input;
  std::uint32_t source_offset = 0;  // in chunks
  std::uint32_t destination_offset = 0;
  std::uint32_t count = 0;
  // Index of a thread block of the same GPU, and its step that must be complete first.
  std::optional<std::uint32_t> wait_block = {};
  std::uint32_t wait_step = 0;
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
  std::uint32_t chunks = 0;  // nchunksperloop: chunks of the larger of the two buffers
  std::vector<MscclGpu> gpus;
};

// Throws InputError for a text that is not an MSCCL algorithm, and for references to GPUs, thread
// blocks or steps that do not exist.
[[nodiscard]] MscclProgram read_msccl_program(const std::string& file, const std::string& text);

}  // namespace trainyard
