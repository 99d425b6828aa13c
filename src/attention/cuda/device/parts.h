// How the tensor cores, which multiply 16-bit elements, get those of a problem; for plans and kernels.
#pragma once

#include <cstdint>

namespace strobe::cuda {

// whole: 16-bit elements as they are. The others hold an fp32 element.
// full: as three bf16 parts. Six of their nine products make 24 bits, the other three are below the last of them.
// scaled: as two fp16 parts of the element times a power of two that brings the largest of a row, or of a group of
// rows, to the top of fp16's range. Three of the four products make 22 to 23 bits: half of the work.
// rounded: as the first of these two parts alone, which has the 11 significant bits of tf32.
enum class Parts : std::uint8_t { whole, rounded, scaled, full };

// 16-bit planes in shared memory.
constexpr int planes_of(Parts parts) { return parts == Parts::full ? 3 : parts == Parts::scaled ? 2 : 1; }

// Whether powers of two come with the elements.
constexpr bool has_scales(Parts parts) { return parts == Parts::scaled || parts == Parts::rounded; }

// Powers of two below the largest of those that share a scale, down to which an element keeps all bits of its parts:
// fp16 has 14 below 1 before it loses any, and the largest is at least 2^14. The second part begins 12 further down.
constexpr int kept_powers(Parts parts) { return parts == Parts::scaled ? 16 : 28; }

// Those of an fp32 problem: a plain kernel, without score options, has the cheaper ones.
constexpr Parts fp32_parts(bool plain, bool tf32) {
  return !plain ? Parts::full : tf32 ? Parts::rounded : Parts::scaled;
}

// How the tensor cores get an fp32 element, for explain.
constexpr const char* text_of(Parts parts) {
  switch (parts) {
    case Parts::whole: return "";
    case Parts::rounded: return ", elements rounded to the 11 bits of tf32";
    case Parts::scaled: return ", two scaled fp16 parts an element";
    case Parts::full: return ", three bf16 parts an element";
  }
  return "";
}

}  // namespace strobe::cuda
