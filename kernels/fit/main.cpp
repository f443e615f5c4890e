// fit_kernels MEASURED PROFILES DATE: fits the measured parts of kernels/profiles and prints the
// errors.
//
//    fit_kernels measured/kernels kernels/profiles 2026-11-21
//
// It reads gemm/*.csv, attention/*.csv and other.json below MEASURED and rewrites the sections
// "gemm", "grouped_gemm", "attention" and "memory_bound" of the profiles of the GPUs measured
// there, and kernels/modules. With MEASURED alone it writes nothing. The same tables give the same
// bytes.
#include <fmt/format.h>

#include <cstdio>
#include <span>

#include "kernels/fit/fit_profile.hpp"
#include "sim/base/error.hpp"

int main(int count, char** values) {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  if (arguments.size() != 2 && arguments.size() != 4) {
    fmt::print(stderr, "usage: fit_kernels MEASURED [PROFILES DATE]\n");
    return 2;
  }
  try {
    const bool write = arguments.size() == 4;
    trainyard::fit::fit_profiles({.measured = arguments[1],
                                  .profiles = write ? arguments[2] : "",
                                  .date = write ? arguments[3] : ""});
  } catch (const trainyard::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
