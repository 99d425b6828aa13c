// CRC-32, eight bytes per step (slicing-by-8). kTables[k][b] is the CRC remainder of byte b followed by k zero bytes.
#include "core/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace strobe {
namespace {

constexpr std::uint32_t kPolynomial = 0xedb88320u;  // bit 31 is the coefficient of x^0

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) ? kPolynomial : 0u);
    tables[0][byte] = rest;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t rest = tables[k - 1][byte];
      tables[k][byte] = (rest >> 8) ^ tables[0][rest & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();
static_assert(std::endian::native == std::endian::little, "crc32() reads words as little-endian");

// Returns a * b modulo the polynomial.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (; a != 0; a <<= 1) {
    if (a >> 31) sum ^= b;
    b = (b >> 1) ^ ((b & 1) ? kPolynomial : 0u);
  }
  return sum;
}

}  // namespace

std::uint32_t crc32(std::string_view bytes, std::uint32_t before) {
  std::uint32_t rest = ~before;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    word ^= rest;
    rest = 0;
    for (std::size_t k = 0; k < 8; ++k) rest ^= kTables[7 - k][(word >> (8 * k)) & 0xff];
    bytes.remove_prefix(8);
  }
  for (const char c : bytes) rest = (rest >> 8) ^ kTables[0][(rest ^ static_cast<unsigned char>(c)) & 0xff];
  return ~rest;
}

// Appending n zero bytes multiplies the remainder by x^(8 n).
std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  std::uint32_t power = 1u << 23;  // x^8, then its repeated squares
  for (; second_bytes != 0; second_bytes >>= 1) {
    if (second_bytes & 1) first = multiply(first, power);
    power = multiply(power, power);
  }
  return first ^ second;
}

}  // namespace strobe
