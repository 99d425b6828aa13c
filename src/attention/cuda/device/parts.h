// Representations of a problem's elements for the 16-bit tensor cores; used by plans and kernels.
#pragma once

#include <cstdint>

namespace strobe::cuda {

// Representations of an element:
// whole: 16-bit elements, unchanged. The others represent an fp32 element by split floats.
// full: three bf16 parts (3xBF16). Six of the nine MMAs give 24 bits; the other three are below the last of them.
// scaled: two fp16 parts (2xFP16) of the element times a power of two. It scales the largest magnitude of a row, or of
// a group of rows, to the top of fp16's range. Three of the four MMAs give 22 to 23 bits for half of the work. rounded:
// only the first of these two parts, which has the 11 significant bits of TF32.
enum class Parts : std::uint8_t { whole, rounded, scaled, full };

// Number of 16-bit planes in shared memory.
constexpr int planes_of(Parts parts) { return parts == Parts::full ? 3 : parts == Parts::scaled ? 2 : 1; }

// True if powers of two accompany the elements.
constexpr bool has_scales(Parts parts) { return parts == Parts::scaled || parts == Parts::rounded; }

// Number of powers of two below the largest element of a shared scale in which an element keeps all bits of its parts.
// fp16 has 14 below 1 before it loses bits, and the largest is at least 2^14. The second part begins 12 further down.
constexpr int kept_powers(Parts parts) { return parts == Parts::scaled ? 16 : 28; }

// Representation for an fp32 problem: plain kernels, without score options, use the cheaper ones.
constexpr Parts fp32_parts(bool plain, bool tf32) {
  return !plain ? Parts::full : tf32 ? Parts::rounded : Parts::scaled;
}

// Representation of an fp32 element, for explain.
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
