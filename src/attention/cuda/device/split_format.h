// Split formats: how a problem's elements are represented for 16-bit tensor cores. Used by plans and kernels.
#pragma once

#include <cstdint>

namespace strobe::cuda {

// Representations of an element:
// whole: 16-bit elements, unchanged. The others split an fp32 element into 16-bit floats, its terms.
// full: three bf16 floats (3xBF16). Six of the nine MMAs give 24 bits; the results of the other three are smaller than
// the last bit.
// scaled: two fp16 floats (2xFP16) of the element times a power of two. This power scales the largest magnitude of a
// row, or of a group of rows, to the top of fp16's range. Three of the four MMAs give 22 to 23 bits for half of the
// work of `full`.
// rounded: only the first of these two fp16 floats, which has the 11 significant bits of TF32.
enum class SplitFormat : std::uint8_t { whole, rounded, scaled, full };

// Number of terms (16-bit floats) per element. Shared memory has one plane per term (element.cuh).
constexpr int terms_of(SplitFormat split_format) {
  return split_format == SplitFormat::full ? 3 : split_format == SplitFormat::scaled ? 2 : 1;
}

// True if elements are stored with scales, which are powers of two.
constexpr bool has_scales(SplitFormat split_format) {
  return split_format == SplitFormat::scaled || split_format == SplitFormat::rounded;
}

// An element keeps all bits if it is at most this many powers of two smaller than the largest element with the same
// scale. The largest is at least 2^14, and fp16 keeps all bits down to 2^-14: 28 powers for one float. The second float
// begins 12 powers further down, which leaves 16.
constexpr int kept_powers(SplitFormat split_format) { return split_format == SplitFormat::scaled ? 16 : 28; }

// Representation of an fp32 problem's elements. Only plain kernels, which have no score options, use `scaled` and
// `rounded`.
constexpr SplitFormat fp32_split_format(bool plain, bool tf32) {
  return !plain ? SplitFormat::full : tf32 ? SplitFormat::rounded : SplitFormat::scaled;
}

// Name of the representation of fp32 elements in the text of explain.
constexpr const char* text_of(SplitFormat split_format) {
  switch (split_format) {
    case SplitFormat::whole: return "";
    case SplitFormat::rounded: return ", tf32";
    case SplitFormat::scaled: return ", 2xFP16 (two scaled fp16 values per element)";
    case SplitFormat::full: return ", 3xBF16 (three bf16 values per element)";
  }
  return "";
}

}  // namespace strobe::cuda
