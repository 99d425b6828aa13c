// Checks sequence lengths and cumulative offsets for validate.cpp. On the CPU every value must be within its tensor. On
// CUDA the values are in GPU memory and are not read here; kernels clamp them.
#include "attention/checks.h"

#include "core/fail.h"

namespace strobe {

namespace {

constexpr auto kInvalid = ErrorCode::invalid_argument;

bool given(const IndexView& indices) { return indices.data || indices.count != 0; }

void check_index_view(const IndexView& indices, const char* name) {
  if (indices.bits != 32 && indices.bits != 64) {
    fail(kInvalid, "attention: {} has integers of {} bits; valid are 32 and 64", name, indices.bits);
  }
  if (indices.count < 0) fail(kInvalid, "attention: {} has count {}; it must not be negative", name, indices.count);
  check_array({name, indices.data, indices.count, indices.bits / 8});
}

// Checks the lengths [B] of one side (queries or keys) of a padded batch. Each must be in [0, size].
void check_padded(const IndexView& lengths, const char* name, const Problem& problem, std::int64_t size) {
  if (!given(lengths)) return;
  const std::int64_t batch = problem.batch;
  check_index_view(lengths, name);
  if (lengths.count != batch) {
    fail(kInvalid, "attention: {} has count {} but the batch is {}", name, lengths.count, batch);
  }
  if (problem.device == Device::cuda) return;
  for (std::int64_t b = 0; b < batch; ++b) {
    if (lengths[b] < 0 || lengths[b] > size) {
      fail(kInvalid, "attention: {}[{}] is {}; valid are 0 to {}", name, b, lengths[b], size);
    }
  }
}

// Checks first_keys [sequences]. Each value must be in [0, max_seqlen_k].
void check_first_keys(const IndexView& first_keys, const Problem& problem) {
  if (!given(first_keys)) return;
  check_index_view(first_keys, "first_keys");
  if (first_keys.count != problem.batch) {
    fail(kInvalid, "attention: first_keys has count {} but there are {} sequences", first_keys.count, problem.batch);
  }
  if (problem.device == Device::cuda) return;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    if (first_keys[b] < 0 || first_keys[b] > problem.max_seqlen_k) {
      fail(kInvalid, "attention: first_keys[{}] is {}; valid are 0 to {}", b, first_keys[b], problem.max_seqlen_k);
    }
  }
}

// One side, queries or keys, of a packed batch.
struct Packed {
  const IndexView& offsets;  // [sequences + 1]
  const char* name;
  std::int64_t total;  // rows of the packed tensors
  std::int64_t bound;  // max_seqlen_q or max_seqlen_k; 0 if not given
  const char* bound_name;
};

// Checks that offsets start at 0, do not decrease and end at the total. Returns the longest sequence length.
std::int64_t longest_of(const Packed& side) {
  const auto& [offsets, name, total, bound, bound_name] = side;
  if (offsets[0] != 0) fail(kInvalid, "attention: {}[0] is {}; it must be 0", name, offsets[0]);
  const std::int64_t sequences = offsets.count - 1;
  std::int64_t longest = 0;
  for (std::int64_t b = 0; b < sequences; ++b) {
    const std::int64_t begin = offsets[b], end = offsets[b + 1];
    if (end < begin) {
      fail(kInvalid, "attention: {}[{}] is {} after {}; offsets must not decrease", name, b + 1, end, begin);
    }
    if (bound != 0 && end - begin > bound) {  // both are in [0, 2^63), so the difference does not overflow
      fail(kInvalid, "attention: {} is {} but sequence {} of {} has {}", bound_name, bound, b, name, end - begin);
    }
    longest = std::max(longest, end - begin);
  }
  if (offsets[sequences] != total) {
    fail(kInvalid, "attention: {}[{}] is {} but the packed tensors have sequence {}", name, sequences,
         offsets[sequences], total);
  }
  return longest;
}

// Checks one side of a packed batch. Returns an upper bound of its sequence lengths.
std::int64_t check_packed(const Packed& side, Device device) {
  check_index_view(side.offsets, side.name);
  if (side.offsets.count < 1) {
    fail(kInvalid, "attention: {} has count {}; it must be the number of sequences + 1", side.name, side.offsets.count);
  }
  if (side.bound < 0) {
    fail(kInvalid, "attention: {} is {}; valid are 0 (not known) and larger", side.bound_name, side.bound);
  }
  const std::int64_t read = device == Device::cuda ? side.total : longest_of(side);
  const std::int64_t longest = side.bound != 0 ? side.bound : read;
  check_size("the longest packed sequence", longest);
  return longest;
}

void refuse_bound(const char* name, std::int64_t bound) {
  if (bound == 0) return;
  fail(kInvalid, "attention: {} is {} but no cu_seqlens are given; it bounds packed sequences", name, bound);
}

void check_packed_pair(const Attention& attention, Problem& problem) {
  const IndexView &q = attention.cu_seqlens_q, &k = attention.cu_seqlens_k;
  if (!given(q) || !given(k)) {
    fail(kInvalid, "attention: {} is given but {} is not; packed sequences need both",
         given(q) ? "cu_seqlens_q" : "cu_seqlens_k", given(q) ? "cu_seqlens_k" : "cu_seqlens_q");
  }
  if (attention.q.shape[0] != 1) {
    fail(kInvalid, "attention: packed sequences (cu_seqlens_q) need views of batch 1, but Q has batch {}",
         attention.q.shape[0]);
  }
  if (q.count != k.count) {
    fail(kInvalid, "attention: cu_seqlens_q has count {} but cu_seqlens_k has {}", q.count, k.count);
  }
  problem.max_seqlen_q =
      check_packed({q, "cu_seqlens_q", attention.q.shape[2], attention.max_seqlen_q, "max_seqlen_q"}, problem.device);
  problem.max_seqlen_k =
      check_packed({k, "cu_seqlens_k", attention.k.shape[2], attention.max_seqlen_k, "max_seqlen_k"}, problem.device);
  check_size("the number of packed sequences", q.count - 1);
  problem.batch = q.count - 1;
  problem.packed = true;
}

bool same_array(const IndexView& a, const IndexView& b) { return a.data == b.data && a.bits == b.bits; }

}  // namespace

void check_lengths(const Attention& attention, Problem& problem) {
  const bool lengths = given(attention.lengths_q) || given(attention.lengths_k);
  const bool offsets = given(attention.cu_seqlens_q) || given(attention.cu_seqlens_k);
  if (lengths && offsets) {
    fail(kInvalid, "attention: {} and {} are both given; use lengths (padded) or offsets (packed)",
         given(attention.lengths_q) ? "lengths_q" : "lengths_k",
         given(attention.cu_seqlens_q) ? "cu_seqlens_q" : "cu_seqlens_k");
  }
  if (offsets) {
    check_packed_pair(attention, problem);
  } else {
    const std::int64_t sq = attention.q.shape[2], sk = attention.k.shape[2];
    check_size("the sequence of Q", sq);
    check_size("the sequence of K", sk);
    check_padded(attention.lengths_q, "lengths_q", problem, sq);
    check_padded(attention.lengths_k, "lengths_k", problem, sk);
    refuse_bound("max_seqlen_q", attention.max_seqlen_q);
    refuse_bound("max_seqlen_k", attention.max_seqlen_k);
    problem.max_seqlen_q = sq;
    problem.max_seqlen_k = sk;
  }
  check_first_keys(attention.first_keys, problem);
  problem.first_keys = attention.first_keys;
  problem.lengths_q = attention.lengths_q;
  problem.lengths_k = attention.lengths_k;
  problem.cu_seqlens_q = attention.cu_seqlens_q;
  problem.cu_seqlens_k = attention.cu_seqlens_k;
}

std::string unequal_lengths(const Attention& attention) {
  if (given(attention.cu_seqlens_q) || given(attention.cu_seqlens_k)) {
    return same_array(attention.cu_seqlens_q, attention.cu_seqlens_k) ? "" : "different cu_seqlens_q and cu_seqlens_k";
  }
  if (given(attention.lengths_q) && given(attention.lengths_k)) {
    return same_array(attention.lengths_q, attention.lengths_k) ? "" : "different lengths_q and lengths_k";
  }
  if (given(attention.lengths_q)) return "only lengths_q";
  if (given(attention.lengths_k)) return "only lengths_k";
  const std::int64_t sq = attention.q.shape[2], sk = attention.k.shape[2];
  return sq == sk ? "" : fmt::format("Sq {} and Sk {}", sq, sk);
}

}  // namespace strobe
