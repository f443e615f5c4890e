#include "sim/nccl/fit/error_table.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainyard::nccl::fit {

namespace {

constexpr double kMebi = 1048576.0;

}  // namespace

std::size_t band_of(double bytes) {
  if (bytes <= 65536.0) return 0;
  if (bytes < kMebi) return 1;
  return bytes <= 64.0 * kMebi ? 2 : 3;
}

void ErrorSum::add(double relative) {
  ++rows;
  absolute += std::abs(relative);
  signed_sum += relative;
  if (std::abs(relative) > std::abs(worst)) worst = relative;
}

void ErrorTable::add(const ErrorKey& key, double ratio) {
  const double relative = ratio - 1.0;
  cells_[{key.machine, key.op}][band_of(key.bytes)].add(relative);
  all_.add(relative);
  if (key.bytes >= kMebi) large_.add(relative);
}

std::string to_text(const ErrorSum& sum) {
  if (sum.rows == 0) return "-";
  return fmt::format("{:.1f} % (bias {:+.1f}, worst {:+.0f}, n={})", 100.0 * sum.mean_absolute(),
                     100.0 * sum.bias(), 100.0 * sum.worst, sum.rows);
}

std::string ErrorTable::to_markdown() const {
  std::string text = "| machine | operation |";
  for (const char* band : kBands) text += fmt::format(" {} |", band);
  text += "\n|---|---|---|---|---|---|\n";
  for (const auto& [key, bands] : cells_) {
    text += fmt::format("| {} | {} |", key.first, key.second);
    for (const ErrorSum& sum : bands) text += fmt::format(" {} |", to_text(sum));
    text += "\n";
  }
  return text;
}

}  // namespace trainyard::nccl::fit
