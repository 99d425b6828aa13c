// Compiles {fmt}'s implementation once. All other files see only declarations, which halves their compile time.
// src/core/CMakeLists.txt puts {fmt} into a private inline namespace, so a program that links libstrobe.a may use any
// {fmt}. With versions other than 9, {fmt} is header-only and this file is empty.
#ifndef FMT_HEADER_ONLY
#include <fmt/format-inl.h>

namespace fmt::detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
template auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;
}  // namespace fmt::detail
#endif
