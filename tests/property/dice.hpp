// Random choices of the sweeps, and the number of their seeds.
//
//    Dice dice(seed);
//    const auto tensor = dice.one_of({1, 2, 4});
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <vector>

namespace trainyard::test {

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : random_(seed) {}
  template <class Value = std::int64_t>
  Value one_of(std::initializer_list<Value> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(random_() % values.size()));
  }
  template <class Value>
  Value one_of(const std::vector<Value>& values) {
    return values[random_() % values.size()];
  }
  template <class Value>
  void shuffle(std::vector<Value>& values) {
    std::shuffle(values.begin(), values.end(), random_);
  }
  bool coin() { return random_() % 2 == 1; }

 private:
  std::mt19937 random_;
};

// A small fixed sample, or 1,000 with TRAINYARD_SWEEPS=1 (tools/check sweeps).
inline std::uint32_t seeds(std::uint32_t sample) {
  return std::getenv("TRAINYARD_SWEEPS") == nullptr ? sample : 1000;
}

}  // namespace trainyard::test
