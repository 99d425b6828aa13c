// Integer arithmetic on tile geometry, for the other files of this folder, which are compiled once per instruction set.
#pragma once

namespace strobe::cpu {
namespace {

constexpr int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

constexpr int clamp(int value, int low, int high) { return value < low ? low : value > high ? high : value; }

constexpr int greatest_common_divisor(int a, int b) { return b == 0 ? a : greatest_common_divisor(b, a % b); }

// Granularity of key ranges: the least common multiple of the rows of an M panel and the steps of a chunk.
template <class Engine>
inline constexpr int kStep = Engine::kM / greatest_common_divisor(Engine::kM, Engine::kK) * Engine::kK;

}  // namespace
}  // namespace strobe::cpu
