// A GPU as a profile (kernels/profiles/<gpu>.json): its data sheet, and what was measured on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/cost_model.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

// SMs that a communication's kernel holds while it runs, one for each NCCL channel.
struct CommunicationSms {
  std::int64_t intra = 0;      // a collective within a node
  std::int64_t inter = 0;      // a collective across nodes
  std::int64_t send_recv = 0;  // a message across nodes
  // The share of its speed that a communication loses while a rank of it computes. Unless measured
  // 0: a ring moves three bytes through HBM for each byte on the wire, 450 GB/s need 1.35 of an
  // H100's 3.35 TB/s, and large products leave the rest.
  double slowed = 0.0;
  // The share of its speed that computation loses, for each share of the SMs that a communication
  // holds. Unless measured 1: products run on the SMs that are left (NVIDIA, Matrix Multiplication
  // Background, wave quantisation with n - k SMs); 16 of 132 SMs cost 0.121.
  double compute_loss = 1.0;
};

// Dense rates without sparsity.
struct GpuSheet {
  std::string name;        // "a100_80gb"
  std::string title;       // "NVIDIA A100 SXM4 80 GB"
  std::string generation;  // "ampere"
  std::int64_t sms = 0;
  FlopsPerSecond bf16, fp16, tf32, fp32, fp8;  // zero: not supported
  FlopsPerSecond fp4;  // of products in blocks of 4-bit numbers (NVFP4); zero: not supported
  BytesPerSecond hbm;
  Bytes memory;
  Bytes l2;
  BytesPerSecond host_link;  // to the CPU, one direction, payload and headers
  double power_w = 0.0;      // that the GPU may draw for long; 0: not told
  CommunicationSms communication_sms;
  std::string derived_from;  // the GPU whose measurements serve this one too; empty: its own
  [[nodiscard]] FlopsPerSecond peak(DataType dtype) const;
};

// Time of 4-bit products over that of the same in 8 bits, by the data sheet's rates: 0.5 on a GB200
// (10 over 5 PFLOP/s). Throws InputError where the GPU multiplies nothing in 4 bits.
[[nodiscard]] double four_bit_share(const GpuSheet& sheet);

// Burst: single kernels on a cool chip, as the tables were measured. Sustained: kernels one after
// another as a training step runs them, slower by the profile's `sustained_time`.
enum class Clock : std::uint8_t { Sustained, Burst };

// A GPU with the cost model of its kernels.
struct PricedGpu {
  GpuSheet sheet;
  std::unique_ptr<CostModel> model;
};

// From a GPU's profile. Throws InputError for an unknown name or a malformed file; the cost model
// also for a kernel of a precision the GPU does not have. The sheet alone is read for itself, what
// was fitted is not looked at.
[[nodiscard]] GpuSheet load_gpu_sheet(const std::string& name_or_path);
[[nodiscard]] PricedGpu load_gpu(const std::string& name_or_path, Clock clock = Clock::Sustained);
[[nodiscard]] std::unique_ptr<CostModel> load_cost_model(const std::string& name_or_path,
                                                         Clock clock = Clock::Sustained);
[[nodiscard]] std::vector<std::string> gpu_names();

}  // namespace trainyard
