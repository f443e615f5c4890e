// The bookkeeping of a run: failures per time, hours of GPUs, energy, emissions, cost. Each is a
// product or a quotient; they are functions so that reports and tests use one definition.
//
//    mean_time_between_failures(54 * 86400.0, 419);   // 11 135 s (Llama 3 405B)
#pragma once

namespace trainyard::reliability {

[[nodiscard]] constexpr double mean_time_between_failures(double duration, double failures) {
  return duration / failures;
}

// The largest mean loss for each interruption that leaves a share of the time productive.
[[nodiscard]] constexpr double loss_per_interruption(double duration, double productive_share,
                                                     double interruptions) {
  return (1.0 - productive_share) * duration / interruptions;
}

// Goodput of a run whose number of steps and step time are known: steps x step time / wall time.
[[nodiscard]] constexpr double goodput_of_steps(double steps, double step_time, double wall_time) {
  return steps * step_time / wall_time;
}

// GPU-hours of so many FLOP at a rate per GPU.
[[nodiscard]] constexpr double gpu_hours(double flop, double flops_per_gpu) {
  return flop / flops_per_gpu / 3600.0;
}

// FLOP/s per GPU of a run.
[[nodiscard]] constexpr double flops_per_gpu(double flop, double seconds, double gpus) {
  return flop / (seconds * gpus);
}

[[nodiscard]] constexpr double energy_kwh(double power_kw, double hours) {
  return power_kw * hours;
}

// Joules per token; 1 kWh is 3.6 MJ.
[[nodiscard]] constexpr double joules_per_token(double kwh, double tokens) {
  return kwh * 3.6e6 / tokens;
}

// Emissions in kg of CO2 per kWh, from those of a run.
[[nodiscard]] constexpr double carbon_intensity(double kg, double kwh) { return kg / kwh; }

// Cost of a run: GPU-hours, those of spares included, times the price of one.
[[nodiscard]] constexpr double cost(double hours, double gpus, double price_per_gpu_hour) {
  return hours * gpus * price_per_gpu_hour;
}

}  // namespace trainyard::reliability
