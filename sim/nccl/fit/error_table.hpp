// How far predicted collectives lie from measured ones, by any key and size band.
//
//   ErrorTable table;
//   table.add({"h100 x 8", "all_reduce", bytes}, predicted_us / measured_us);
//   fmt::print("{}", table.to_markdown());
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace trainyard::nccl::fit {

// Bands of a buffer's size: to 64 KiB, to 1 MiB (exclusive), to 64 MiB, more.
inline constexpr std::array kBands{"<= 64 KiB", "< 1 MiB", "<= 64 MiB", "> 64 MiB"};
[[nodiscard]] std::size_t band_of(double bytes);

// Of relative errors predicted / measured - 1.
struct ErrorSum {
  std::size_t rows = 0;
  double absolute = 0.0;
  double signed_sum = 0.0;
  double worst = 0.0;  // signed, of the largest magnitude

  void add(double relative);
  [[nodiscard]] double mean_absolute() const {
    return rows == 0 ? 0.0 : absolute / static_cast<double>(rows);
  }
  [[nodiscard]] double bias() const {
    return rows == 0 ? 0.0 : signed_sum / static_cast<double>(rows);
  }
};

struct ErrorKey {
  std::string machine;
  std::string op;
  double bytes = 0.0;
};

class ErrorTable {
 public:
  void add(const ErrorKey& key, double ratio);
  [[nodiscard]] const ErrorSum& all() const { return all_; }
  [[nodiscard]] const ErrorSum& from_one_mebibyte() const { return large_; }
  // A line by machine and operation, a column by band: "5.1 % (-0.4, worst +17, n=60)".
  [[nodiscard]] std::string to_markdown() const;

 private:
  std::map<std::pair<std::string, std::string>, std::array<ErrorSum, kBands.size()>> cells_;
  ErrorSum all_;
  ErrorSum large_;
};

// "6.2 % (bias +0.1, worst -31, n=208)".
[[nodiscard]] std::string to_text(const ErrorSum& sum);

}  // namespace trainyard::nccl::fit
