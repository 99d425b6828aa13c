// Tests the option batch_invariant. The bits of a row of O and LSE must not depend on the other sequences of the batch,
// on the chunk of query rows that contains the row, or on padding.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "support/case.h"
#include "support/check.h"
#include "support/data.h"
#include "support/isa_scope.h"

namespace strobe::test {
namespace {

// A part of a case's tensors: some sequences, rows [first_row, last_row) and keys [first_key, last_key).
struct Part {
  std::int64_t first_batch = 0, batches = 0;
  std::int64_t first_row = 0, last_row = 0;
  std::int64_t first_key = 0, last_key = 0;
};

Part whole_of(const Case& c) { return {0, c.batch, 0, c.sq, 0, c.sk}; }

ConstView part_of(const Tensor& tensor, std::int64_t first_batch, std::int64_t batches, std::int64_t first,
                  std::int64_t last) {
  ConstView view = tensor.view;
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
  view.data = static_cast<const char*>(view.data) + tensor.index(first_batch, 0, first, 0) * bytes;
  view.shape[0] = batches;
  view.shape[2] = last - first;
  return view;
}

Attention attention_of(const Data& data, const Part& part) {
  Attention attention = data.attention();
  attention.q = part_of(data.q, part.first_batch, part.batches, part.first_row, part.last_row);
  attention.k = part_of(data.k, part.first_batch, part.batches, part.first_key, part.last_key);
  attention.v = part_of(data.v, part.first_batch, part.batches, part.first_key, part.last_key);
  return attention;
}

// Bits of O in the order [b][h][row][c], and LSE in the order [b][h][row].
struct RowBits {
  std::vector<char> o;
  std::vector<float> lse;
};

RowBits rows_of(const Attention& attention, int threads, bool invariant = true) {
  const auto& q = attention.q.shape;
  const Shape shape{q[0], q[1], q[2], attention.v.shape[3]};
  RowBits rows{std::vector<char>(static_cast<std::size_t>(count_of(shape)) * size_of(attention.q.dtype)),
               std::vector<float>(static_cast<std::size_t>(q[0] * q[1] * q[2]))};
  forward(attention, {.o = view_bhsd<void>(rows.o.data(), attention.q.dtype, shape), .lse = rows.lse.data()},
          {.kernel = "flash2", .threads = threads, .batch_invariant = invariant});
  return rows;
}

// Returns the number of rows of `part` whose bits differ from the same rows of the whole case.
int differences(const Case& c, const RowBits& whole, const Part& part, const RowBits& rows) {
  const std::size_t bytes = static_cast<std::size_t>(c.dv) * size_of(c.dtype);
  const std::int64_t count = part.last_row - part.first_row;
  int different = 0;
  for_each({part.batches, c.heads_q, count, 1}, [&](auto b, auto h, auto i, auto) {
    const auto at = static_cast<std::size_t>((b * c.heads_q + h) * count + i);
    const auto from = static_cast<std::size_t>(((part.first_batch + b) * c.heads_q + h) * c.sq + part.first_row + i);
    const bool same = std::memcmp(&rows.o[at * bytes], &whole.o[from * bytes], bytes) == 0 &&
                      std::memcmp(&rows.lse[at], &whole.lse[from], sizeof(float)) == 0;
    different += same ? 0 : 1;
  });
  return different;
}

std::vector<Case> invariance_cases(DType dtype) {
  return {
      case_from("b3 h4/2 s70x2300 d32/40 {} causal=bottom_right seed=301", name_of(dtype)),
      case_from("b3 h2 s150x450 d64 {} align=bottom_right window=300:0 softcap=5 alibi seed=302", name_of(dtype)),
      case_from("b2 h6/2 s40x700 d20/24 {} causal=bottom_right sinks seed=303", name_of(dtype)),
      case_from("b2 h2 s33x130 d128 {} causal=bottom_right values=large seed=304", name_of(dtype)),
  };
}

class BatchInvariance : public testing::TestWithParam<DType> {};

// Calls body(case, data, rows of the whole case) for every case and instruction set.
template <class Body>
void for_each_case(DType dtype, const Body& body) {
  for (const Case& c : invariance_cases(dtype)) {
    const Data data(c);
    for (const std::string& isa : isas_for(dtype)) {
      const IsaScope scope(isa);
      SCOPED_TRACE(describe(c) + ", " + isa);
      body(c, data, rows_of(attention_of(data, whole_of(c)), 2));
    }
  }
}

TEST_P(BatchInvariance, SequencesThatRunSeparatelyHaveTheSameBits) {
  for_each_case(GetParam(), [](const Case& c, const Data& data, const RowBits& whole) {
    for (std::int64_t b = 0; b < c.batch; ++b) {
      Part part = whole_of(c);
      part.first_batch = b, part.batches = 1;
      for (const int threads : {1, 3}) {
        EXPECT_EQ(differences(c, whole, part, rows_of(attention_of(data, part), threads)), 0) << b;
      }
    }
  });
}

// Chunked prefill and decode: rows [first, last) with the keys that exist by then.
TEST_P(BatchInvariance, ChunksOfRowsHaveTheSameBits) {
  for_each_case(GetParam(), [](const Case& c, const Data& data, const RowBits& whole) {
    const std::vector<std::array<std::int64_t, 2>> chunks = {{0, 1},     {0, 7},           {7, 24},
                                                             {24, c.sq}, {c.sq - 1, c.sq}, {c.sq / 2, c.sq / 2 + 1}};
    for (const auto& [first, last] : chunks) {
      Part part = whole_of(c);
      part.first_row = first, part.last_row = last, part.last_key = c.sk - c.sq + last;
      EXPECT_EQ(differences(c, whole, part, rows_of(attention_of(data, part), 2)), 0) << first << " to " << last;
    }
  });
}

// Pads sequences with keys past their length, and with keys before their first valid key.
TEST_P(BatchInvariance, PaddingDoesNotChangeBits) {
  for_each_case(GetParam(), [](const Case& c, const Data& data, const RowBits& whole) {
    Part cut = whole_of(c);
    cut.last_key = c.sk - 37;
    const RowBits without = rows_of(attention_of(data, cut), 2);
    Attention padded = attention_of(data, whole_of(c));
    const std::vector<std::int32_t> lengths(static_cast<std::size_t>(c.batch), static_cast<std::int32_t>(c.sk - 37));
    padded.lengths_k = view_index(lengths.data(), c.batch);
    EXPECT_EQ(differences(c, without, whole_of(c), rows_of(padded, 2)), 0) << "padding past the length";

    Part later = whole_of(c);
    later.first_key = 45;
    const RowBits shifted = rows_of(attention_of(data, later), 2);
    Attention left = attention_of(data, whole_of(c));
    const std::vector<std::int32_t> first(static_cast<std::size_t>(c.batch), 45);
    left.first_keys = view_index(first.data(), c.batch);
    EXPECT_EQ(differences(c, shifted, whole_of(c), rows_of(left, 2)), 0) << "padding before the first key";
    EXPECT_GT(differences(c, whole, whole_of(c), shifted), 0) << "some row must change without the first 45 keys";
  });
}

TEST_P(BatchInvariance, PackedSequencesHaveTheBitsOfSeparateRuns) {
  const Case c = case_from("b1 h4/2 s90x1500 d32 {} causal=bottom_right seed=305", name_of(GetParam()));
  const Data data(c);
  const std::int32_t offsets_q[] = {0, 20, 90}, offsets_k[] = {0, 400, 1500};
  for (const std::string& isa : isas_for(GetParam())) {
    const IsaScope scope(isa);
    Attention packed = attention_of(data, whole_of(c));
    packed.cu_seqlens_q = view_index(offsets_q, 3);
    packed.cu_seqlens_k = view_index(offsets_k, 3);
    const RowBits all = rows_of(packed, 2);
    for (int b = 0; b < 2; ++b) {
      const Part part{0, 1, offsets_q[b], offsets_q[b + 1], offsets_k[b], offsets_k[b + 1]};
      EXPECT_EQ(differences(c, all, part, rows_of(attention_of(data, part), 1)), 0) << isa << ", sequence " << b;
    }
  }
}

// Without the option some row differs, which shows that the tests above can fail. With AMX no row of this case does.
TEST(BatchInvariant, RowsDifferWithoutTheOption) {
  const Case c = case_from("h4 s70x2300 d32 causal=bottom_right seed=301");
  const Data data(c);
  Part last = whole_of(c);
  last.first_row = c.sq - 1;
  std::int64_t different = 0;
  for (const std::string& isa : isas_for(DType::fp32)) {
    const IsaScope scope(isa);
    const RowBits whole = rows_of(attention_of(data, whole_of(c)), 2, false);
    different += differences(c, whole, last, rows_of(attention_of(data, last), 2, false));
  }
  EXPECT_GT(different, 0);
}

TEST(BatchInvariant, BlasKernelsRefuseTheForward) {
  const Case c = case_from("s5 d8");
  const Data data(c);
  for (const char* kernel : {"standard", "frugal"}) {
    try {
      workspace_bytes(data.attention(), Pass::forward, {.kernel = kernel, .batch_invariant = true});
      ADD_FAILURE() << kernel;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("batch_invariant"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(workspace_bytes(data.attention(), Pass::backward, {.kernel = kernel, .batch_invariant = true}));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BatchInvariance, testing::Values(DType::fp32, DType::fp16, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace strobe::test
