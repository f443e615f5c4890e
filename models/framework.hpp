// What the software around a model takes of a GPU's memory: context, workspaces, communicators, and
// what its allocator cannot use.
//
// Frameworks are data (models/frameworks/*.json), each figure with its source.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

struct FrameworkMemory {
  std::int64_t context_bytes = 0;    // CUDA context of one process
  std::int64_t workspace_bytes = 0;  // library workspaces
  // NCCL's buffers of one channel to one peer, all protocols; a channel of a ring has two peers.
  std::int64_t channel_bytes = 0;
  // Of what comes and goes during the step, so much more is reserved than in use at the peak.
  double fragmentation = 0.0;
  // A kernel that adds weight gradients to the accumulated ones leaves autograd a tensor of each
  // weight's shape instead: one is kept for every distinct shape, and the head makes its own.
  bool gradient_placeholders = false;
  // Copies of an expert's rows, each rows x h, that a forward holds beside those kept for backward.
  std::int64_t expert_row_copies = 0;
  // zero_stage 2: buckets of gradients that exist at once, the one that is filled and those that
  // are being reduced. DeepSpeed, FSDP and Megatron-FSDP have two.
  std::int64_t gradient_buckets_in_flight = 2;
  // fp32 tensors of the logits' size alive at once in the loss. 1: their gradient takes the place
  // of the exponentials, and the 16-bit logits stay; more: those are given back before the
  // backward.
  std::int64_t loss_copies = 1;

  bool operator==(const FrameworkMemory&) const = default;
};

// By name from models/frameworks. Throws InputError.
[[nodiscard]] FrameworkMemory load_framework(const std::string& name);

}  // namespace trainyard
