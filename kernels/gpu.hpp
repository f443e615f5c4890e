// A GPU as described by a profile (kernels/profiles/<gpu>.json): its data sheet and the
// measurements on it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/cost_model.hpp"
#include "sim/workload/kernel.hpp"

namespace trainyard {

// SMs that the kernel of a communication occupies while it runs, one for each NCCL channel.
struct CommunicationSms {
  std::int64_t intra = 0;      // a collective within a node
  std::int64_t inter = 0;      // a collective across nodes
  std::int64_t send_recv = 0;  // a message across nodes
  // Share of its speed that a communication loses while a rank of it computes. 0 unless measured: a
  // ring moves three bytes through HBM for each byte on the wire, so 450 GB/s need 1.35 of an
  // H100's 3.35 TB/s, and large GEMMs leave the rest free.
  double slowed = 0.0;
  // Share of its speed that computation loses per share of the SMs that a communication occupies. 1
  // unless measured: GEMMs run on the remaining SMs (NVIDIA, Matrix Multiplication Background, wave
  // quantisation with n - k SMs); 16 of 132 SMs cost 0.121.
  double compute_loss = 1.0;
};

// The data sheet of a GPU. Rates are dense, without sparsity.
struct GpuSheet {
  std::string name;        // "a100_80gb"
  std::string title;       // "NVIDIA A100 SXM4 80 GB"
  std::string generation;  // "ampere"
  std::int64_t sms = 0;
  FlopsPerSecond bf16, fp16, tf32, fp32, fp8;  // zero: not supported
  FlopsPerSecond fp4;  // of GEMMs in blocks of 4-bit numbers (NVFP4); zero: not supported
  BytesPerSecond hbm;
  Bytes memory;
  Bytes l2;
  BytesPerSecond host_link;  // to the CPU, one direction, payload and headers
  double power_w = 0.0;      // sustained power limit; 0: unknown
  CommunicationSms communication_sms;
  // The GPU whose measurements are also used for this one; empty: its own.
  std::string derived_from;
  [[nodiscard]] FlopsPerSecond peak(DataType dtype) const;
};

// Time of 4-bit GEMMs over that of the same GEMMs in 8 bits, by the data sheet's rates: 0.5 on a
// GB200 (10 over 5 PFLOP/s). Throws InputError where the GPU has no 4-bit GEMMs.
[[nodiscard]] double four_bit_share(const GpuSheet& sheet);

// Burst: single kernels on a cool chip, as the tables were measured. Sustained: kernels back to
// back as in a training step, slower by the profile's `sustained_time`.
enum class Clock : std::uint8_t { Sustained, Burst };

// A GPU with the cost model of its kernels.
struct PricedGpu {
  GpuSheet sheet;
  std::unique_ptr<CostModel> model;
};

// Read from the profile of a GPU. They throw InputError for an unknown name or a malformed file;
// the cost model also throws it for a kernel of a precision that the GPU lacks. load_gpu_sheet
// reads only the data sheet and no fitted sections.
[[nodiscard]] GpuSheet load_gpu_sheet(const std::string& name_or_path);
[[nodiscard]] PricedGpu load_gpu(const std::string& name_or_path, Clock clock = Clock::Sustained);
[[nodiscard]] std::unique_ptr<CostModel> load_cost_model(const std::string& name_or_path,
                                                         Clock clock = Clock::Sustained);
[[nodiscard]] std::vector<std::string> gpu_names();

}  // namespace trainyard
