// The only source of randomness: named streams of random numbers that are derived from a seed.
//
// A stream depends only on the seed and the names on its path. One more number drawn in one place
// therefore changes no other stream.
//
//    Random layer = Random(seed).split("routing").split(7);
//    layer.uniform();   // the same on every machine
//
// Numbers are those of SplitMix64 (Steele, Lea, Flood 2014, OOPSLA, figure 17), whose state is one
// word. split() mixes a name into it with the same finaliser.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace trainyard {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] Random split(std::string_view name) const;
  [[nodiscard]] Random split(std::uint64_t number) const;

  [[nodiscard]] std::uint64_t word();
  [[nodiscard]] double uniform();   // in [0, 1), 53 bits
  [[nodiscard]] double gaussian();  // mean 0, variance 1 (Box and Muller 1958)
  // Gamma distribution of shape alpha and scale 1 (Marsaglia and Tsang 2000, ACM TOMS 26, figure
  // 1). REQUIRES: alpha > 0.
  [[nodiscard]] double gamma(double alpha);
  // Returns 0 .. count-1 in random order (Fisher and Yates).
  [[nodiscard]] std::vector<std::uint32_t> permutation(std::uint32_t count);

 private:
  std::uint64_t state_;
};

}  // namespace trainyard
