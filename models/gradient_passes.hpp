// The kernels in which a framework passes over every gradient of a rank beside stepping: it adds
// those of a microbatch to those before, where products do not, scales them so that their sum over
// replicas is a mean, looks for NaN in what it is about to send, and takes out the loss scale of
// fp16.
//
// Each reads (and writes) all gradients once, so they show in short steps: 12 bytes of each of 5.7
// thousand million fp32 gradients are 10 ms at a B200's 7.1 TB/s. Frameworks are data
// (models/frameworks/*.json, "gradient_passes"), each figure with its source.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard {

// Who divides by the number of replicas: the reduction itself (ncclAvg), a kernel before it, or a
// kernel even where there is one replica. Framework: whatever the framework does.
enum class GradientAverage : std::uint8_t { Framework, Collective, Before, BeforeAlways };

// Whether every gradient is read for NaN before it is reduced.
enum class GradientCheck : std::uint8_t { Framework, On, Off };

struct GradientPasses {
  GradientAverage average = GradientAverage::Collective;  // never Framework
  GradientCheck check = GradientCheck::Off;               // never Framework
  bool unscale = false;  // fp16: a kernel of its own divides by the loss scale before the norm
  // What a microbatch leaves is added to what those before it left by a kernel of its own
  // (autograd's AccumulateGrad), not by the product that makes it.
  bool accumulate = false;

  // These, but for what a scenario says itself.
  [[nodiscard]] GradientPasses with(GradientAverage own_average, GradientCheck own_check) const;
  // Bytes that move for each gradient of `width` bytes before `replicas` ranks reduce it.
  [[nodiscard]] std::int64_t scaling_bytes(std::int64_t replicas, std::int64_t width) const;

  bool operator==(const GradientPasses&) const = default;
};

// By a name of models/frameworks; none where the file names none. Throws InputError.
[[nodiscard]] GradientPasses load_gradient_passes(const std::string& name);

}  // namespace trainyard
