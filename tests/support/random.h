// Random number generator of the tests (SplitMix64). Unlike the distributions of <random>, its algorithm does not
// depend on the standard library.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numbers>

namespace strobe::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Returns a number in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Returns an integer in [lo, hi], both included.
  std::int64_t between(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(hi - lo + 1));
  }

  bool chance(double p) { return uniform() < p; }

  float normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return static_cast<float>(radius * std::cos(2 * std::numbers::pi * uniform()));
  }

  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[next() % values.size()];
  }

  template <class Container>
  auto pick_from(const Container& values) {
    return values[static_cast<std::size_t>(next() % values.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace strobe::test
