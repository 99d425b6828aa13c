// Implements nearest_that_fit() with one binary search per axis.
#include "bench/nearest.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/case.h"

namespace strobe::bench {
namespace {

struct SizeAxis {
  std::int64_t size;                                               // original size of the axis
  std::function<void(AttentionCase& one, std::int64_t size)> set;  // requires 1 <= size < the original size
};

SizeAxis batch_axis(const AttentionCase& one) {
  return {one.batch, [](AttentionCase& smaller, std::int64_t size) { smaller.batch = size; }};
}

SizeAxis sequence_axis(const AttentionCase& one) {
  const std::int64_t longer = std::max(one.seqlen_q, one.seqlen_k);
  return {longer, [one, longer](AttentionCase& smaller, std::int64_t size) {
            const auto share = static_cast<double>(size) / static_cast<double>(longer);
            const auto shortened = [&](std::int64_t length) {
              if (length == longer) return size;
              return std::min(
                  length, std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(length))));
            };
            smaller.seqlen_q = shortened(one.seqlen_q);
            smaller.seqlen_k = shortened(one.seqlen_k);
          }};
}

SizeAxis heads_axis(const AttentionCase& one) {
  if (one.kv_heads == 1) {
    return {one.heads, [](AttentionCase& smaller, std::int64_t size) { smaller.heads = size; }};
  }
  return {one.kv_heads, [per_kv_head = one.heads / one.kv_heads](AttentionCase& smaller, std::int64_t size) {
            smaller.kv_heads = size;
            smaller.heads = size * per_kv_head;
          }};
}

AttentionCase with(AttentionCase one, const SizeAxis& axis, std::int64_t size) {
  axis.set(one, size);
  fit_lengths(one);
  return one;
}

// Returns the largest size that fits and is less than the original, or 0.
std::int64_t largest_that_fits(const AttentionCase& one, const SizeAxis& axis, const Fits& fits) {
  std::int64_t fitting = 0, too_large = axis.size;
  while (fitting + 1 < too_large) {
    const std::int64_t middle = fitting + (too_large - fitting) / 2;
    (fits(with(one, axis, middle)) ? fitting : too_large) = middle;
  }
  return fitting;
}

}  // namespace

std::vector<SmallerCase> nearest_that_fit(const AttentionCase& one, const Fits& fits) {
  const double flops = std::max(1.0, forward_flops(one));
  std::vector<SizeAxis> axes = {batch_axis(one), heads_axis(one), sequence_axis(one)};  // in the order of reduction
  std::vector<SmallerCase> found;
  for (AttentionCase start = one; !axes.empty(); axes.erase(axes.begin())) {
    for (const SizeAxis& axis : axes) {
      const std::int64_t size = largest_that_fits(start, axis, fits);
      if (size == 0) continue;
      const AttentionCase smaller = with(start, axis, size);
      found.push_back({smaller, forward_flops(smaller) / flops});
    }
    if (!found.empty()) break;
    start = with(start, axes.front(), 1);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.work > b.work; });
  return found;
}

std::string flags_between(const AttentionCase& from, const AttentionCase& to) {
  std::vector<std::string> flags;
  const auto add = [&](const char* name, std::int64_t before, std::int64_t after) {
    if (before != after) flags.push_back(fmt::format("--{} {}", name, after));
  };
  add("batch_size", from.batch, to.batch);
  add("seq_len", from.seqlen_q, to.seqlen_q);
  if (from.seqlen_q != from.seqlen_k) add("seq_len_k", from.seqlen_k, to.seqlen_k);
  add("num_heads", from.heads, to.heads);
  if (from.heads != from.kv_heads) add("num_kv_heads", from.kv_heads, to.kv_heads);
  add("emb_dim", from.emb_dim(), to.emb_dim());
  if (from.options.lengths != to.options.lengths) {
    flags.push_back(fmt::format("--lengths {}", fmt::join(to.options.lengths, ",")));
  }
  return fmt::format("{}", fmt::join(flags, " "));
}

std::string advice_on(const AttentionCase& one, const Fits& fits) {
  std::vector<std::string> items;
  for (const SmallerCase& smaller : nearest_that_fit(one, fits)) {
    items.push_back(fmt::format("{} ({:.3g} %{})", flags_between(one, smaller.one), 100 * smaller.work,
                                items.empty() ? " of the work" : ""));
  }
  AttentionCase narrow = one;
  narrow.dtype = DType::bf16;
  if (one.dtype == DType::fp32 && fits(narrow)) items.emplace_back("--dtype bf16");
  return items.empty() ? "no smaller batch, sequence or number of heads fits"
                       : fmt::format("fits: {}", fmt::join(items, ", "));
}

}  // namespace strobe::bench
