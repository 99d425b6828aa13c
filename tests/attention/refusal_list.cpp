// Lists the invalid arguments that forward() and backward() both reject. workspace_bytes() and explain() reject them
// too, except missing memory.
#include "attention/refusal_list.h"

#include <limits>

#include "support/case.h"

namespace strobe::test {

namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

const std::int32_t kOther[2] = {5, 0};
const std::int32_t kOffsetsQ[3] = {0, 1, 3};
const std::int64_t kOffsetsK[3] = {0, 0, 5};

}  // namespace

void pack(SmallProblem& s) {
  for (ConstView* view : {&s.attention.q, &s.attention.k, &s.attention.v, &s.inputs.o, &s.inputs.d_o}) {
    view->shape[0] = 1;
  }
  for (View* view : {&s.outputs.o, &s.gradients.dq, &s.gradients.dk, &s.gradients.dv}) view->shape[0] = 1;
  s.attention.cu_seqlens_q = view_index(kOffsetsQ, 3);
  s.attention.cu_seqlens_k = view_index(kOffsetsK, 3);
}

const std::vector<Refusal>& common_refusals() {
  static const std::vector<Refusal> list{
      {"head dims", [](SmallProblem& s) { s.attention.k.shape[3] = 7; }, {"K has head_dim 7 but Q has 8"}},
      {"head dim 0",
       [](SmallProblem& s) { s.attention.q.shape[3] = s.attention.k.shape[3] = 0; },
       {"Q has head_dim 0", "1 to 2147483583"}},
      {"value dim 0", [](SmallProblem& s) { s.attention.v.shape[3] = 0; }, {"V has head_dim 0", "1 to 2147483583"}},
      {"no Q", [](SmallProblem& s) { s.attention.q = {}; }, {"Q is missing"}},
      {"no V", [](SmallProblem& s) { s.attention.v = {}; }, {"V is missing"}},
      {"heads", [](SmallProblem& s) { s.attention.q.shape[1] = 3; }, {"Q has 3 heads", "multiple of the 2 heads"}},
      {"no KV heads",
       [](SmallProblem& s) { s.attention.k.shape[1] = s.attention.v.shape[1] = 0; },
       {"Q has 4 heads", "0 heads"}},
      {"V heads", [](SmallProblem& s) { s.attention.v.shape[1] = 1; }, {"V has heads 1 but K has 2"}},
      {"K batch", [](SmallProblem& s) { s.attention.k.shape[0] = 3; }, {"K has batch 3 but Q has 2"}},
      {"V batch", [](SmallProblem& s) { s.attention.v.shape[0] = 1; }, {"V has batch 1 but Q has 2"}},
      {"V sequence", [](SmallProblem& s) { s.attention.v.shape[2] = 4; }, {"V has sequence 4 but K has 5"}},
      {"negative size", [](SmallProblem& s) { s.attention.q.shape[2] = -3; }, {"Q has sequence -3", "[2, 4, -3, 8]"}},
      {"negative head dim", [](SmallProblem& s) { s.attention.k.shape[3] = -8; }, {"K has last dimension -8"}},
      {"overflowing size",
       [](SmallProblem& s) { s.attention.q.shape[0] = kHuge; },
       {"Q of shape [9223372036854775807, 4, 3, 8]", "2^50"}},
      {"long sequence",
       [](SmallProblem& s) { s.attention.q.shape[2] = (std::int64_t{1} << 31) - 64; },
       {"sequence of Q is 2147483584", "2147483583"}},
      {"big batch",
       [](SmallProblem& s) {
         s.attention.q.shape[0] = s.attention.k.shape[0] = s.attention.v.shape[0] = std::int64_t{1} << 32;
       },
       {"batch of Q is 4294967296"}},
      {"many heads",
       [](SmallProblem& s) { s.attention.q.shape[1] = std::int64_t{1} << 32; },
       {"heads of Q is 4294967296"}},
      {"overflowing stride",
       [](SmallProblem& s) { s.attention.k.stride[0] = kHuge; },
       {"K of shape [2, 2, 5, 8]", "9223372036854775807", "2^56"}},
      {"overflowing negative stride",
       [](SmallProblem& s) { s.attention.k.stride[1] = -kHuge - 1; },
       {"K of shape", "-9223372036854775808"}},
      {"wide stride",
       [](SmallProblem& s) { s.attention.v.stride[0] = kHuge / 8; },
       {"V of shape", "1152921504606846975", "2^56"}},
      {"beyond the address space",
       [](SmallProblem& s) { s.attention.v.data = reinterpret_cast<void*>(~std::uintptr_t{15}); },
       {"V at 0xfffffffffffffff0", "leaves the address space"}},
      {"before the address space",
       [](SmallProblem& s) { s.attention.v.stride[0] = -(kHuge >> 10); },
       {"V at 0x", "leaves the address space"}},
      {"null Q", [](SmallProblem& s) { s.attention.q.data = nullptr; }, {"Q is null", "[2, 4, 3, 8]"}},
      {"null K", [](SmallProblem& s) { s.attention.k.data = nullptr; }, {"K is null", "[2, 2, 5, 8]"}},
      {"null V", [](SmallProblem& s) { s.attention.v.data = nullptr; }, {"V is null", "[2, 2, 5, 6]"}},
      {"misaligned Q", [](SmallProblem& s) { shift(s.attention.q, 2); }, {"Q at 0x", "4 bytes of fp32"}},
      {"misaligned V", [](SmallProblem& s) { shift(s.attention.v, 1); }, {"V at 0x", "4 bytes of fp32"}},
      {"dtype of K", [](SmallProblem& s) { s.attention.k.dtype = DType::bf16; }, {"K is bf16 but Q is fp32"}},
      {"dtype of V", [](SmallProblem& s) { s.attention.v.dtype = DType::fp16; }, {"V is fp16 but Q is fp32"}},
      {"unknown dtype",
       [](SmallProblem& s) { s.attention.q.dtype = static_cast<DType>(7); },
       {"Q has the unknown dtype 7", "fp32", "bf16"}},
      {"last stride 2", [](SmallProblem& s) { s.attention.q.stride[3] = 2; }, {"Q has stride 2", "must be 1"}},
      {"last stride 0", [](SmallProblem& s) { s.attention.v.stride[3] = 0; }, {"V has stride 0", "must be 1"}},
      {"last stride -1", [](SmallProblem& s) { s.attention.k.stride[3] = -1; }, {"K has stride -1", "must be 1"}},

      {"scale inf", [](SmallProblem& s) { s.attention.scale = kInf; }, {"scale is inf", "finite"}},
      {"scale nan", [](SmallProblem& s) { s.attention.scale = kNan; }, {"scale is nan", "finite"}},
      {"softcap -1", [](SmallProblem& s) { s.attention.softcap = -1; }, {"softcap is -1"}},
      {"softcap 1e-31", [](SmallProblem& s) { s.attention.softcap = 1e-31f; }, {"softcap is 1e-31", "1e-30 to 1e+30"}},
      {"softcap 1e31", [](SmallProblem& s) { s.attention.softcap = 1e31f; }, {"softcap is 1e+31", "1e-30 to 1e+30"}},
      {"softcap nan", [](SmallProblem& s) { s.attention.softcap = kNan; }, {"softcap is nan"}},
      {"softcap inf", [](SmallProblem& s) { s.attention.softcap = kInf; }, {"softcap is inf"}},
      {"window left", [](SmallProblem& s) { s.attention.window.left = -2; }, {"window left is -2", "-1 (open)"}},
      {"window right", [](SmallProblem& s) { s.attention.window.right = -9; }, {"window right is -9", "-1 (open)"}},
      {"dropout 1", [](SmallProblem& s) { s.attention.dropout.p = 1; }, {"dropout p is 1", "0 <= p < 1"}},
      {"dropout -0.1", [](SmallProblem& s) { s.attention.dropout.p = -0.1f; }, {"dropout p is -0.1"}},
      {"dropout nan", [](SmallProblem& s) { s.attention.dropout.p = kNan; }, {"dropout p is nan"}},
      {"unknown alignment",
       [](SmallProblem& s) { s.attention.alignment = static_cast<Alignment>(9); },
       {"unknown alignment 9", "top_left"}},
      {"slopes misaligned",
       [](SmallProblem& s) {
         s.attention.alignment = Alignment::top_left;
         s.attention.alibi_slopes = shifted(s.array(8), 1);
       },
       {"alibi_slopes at 0x", "4 bytes"}},
      {"sinks misaligned",
       [](SmallProblem& s) { s.attention.sinks = shifted(s.array(8), 2); },
       {"sinks at 0x", "4 bytes"}},

      {"causal without alignment",
       [](SmallProblem& s) { s.attention.causal = true; },
       {"causal", "Sq 3 and Sk 5", "top_left or bottom_right"}},
      {"window without alignment",
       [](SmallProblem& s) { s.attention.window.left = 1; },
       {"window", "Sq 3 and Sk 5", "bottom_right"}},
      {"ALiBi without alignment",
       [](SmallProblem& s) { s.attention.alibi_slopes = s.array(4); },
       {"ALiBi", "Sq 3 and Sk 5", "bottom_right"}},
      {"causal, lengths of one side",
       [](SmallProblem& s) {
         s.make_square();
         s.attention.causal = true;
         s.attention.lengths_k = view_index(kLengths, 2);
       },
       {"causal", "only lengths_k"}},
      {"causal, different lengths",
       [](SmallProblem& s) {
         s.make_square();
         s.attention.causal = true;
         s.attention.lengths_q = view_index(kOffsetsQ, 2);
         s.attention.lengths_k = view_index(kLengths, 2);
       },
       {"causal", "lengths_q and lengths_k"}},
      {"causal, different offsets",
       [](SmallProblem& s) {
         pack(s);
         s.attention.causal = true;
       },
       {"causal", "cu_seqlens_q and cu_seqlens_k"}},

      {"too few lengths",
       [](SmallProblem& s) { s.attention.lengths_q = view_index(kLengths, 1); },
       {"lengths_q has count 1 but the batch is 2"}},
      {"length too long",
       [](SmallProblem& s) { s.attention.lengths_q = view_index(kOther, 2); },
       {"lengths_q[0] is 5", "0 to 3"}},
      {"length negative",
       [](SmallProblem& s) {
         static const std::int64_t bad[2] = {2, -7};
         s.attention.lengths_k = view_index(bad, 2);
       },
       {"lengths_k[1] is -7", "0 to 5"}},
      {"lengths null",
       [](SmallProblem& s) {
         s.attention.lengths_k = {nullptr, 32, 2};
       },
       {"lengths_k is null", "2 elements"}},
      {"lengths of 16 bits",
       [](SmallProblem& s) {
         s.attention.lengths_k = {kLengths, 16, 2};
       },
       {"lengths_k", "16 bits", "32 and 64"}},
      {"lengths negative count",
       [](SmallProblem& s) {
         s.attention.lengths_k = {kLengths, 32, -2};
       },
       {"lengths_k has count -2"}},
      {"lengths misaligned",
       [](SmallProblem& s) {
         s.attention.lengths_k = {shifted(kLengths, 2), 32, 2};
       },
       {"lengths_k at 0x", "4 bytes"}},
      {"lengths and offsets",
       [](SmallProblem& s) {
         pack(s);
         s.attention.lengths_k = view_index(kLengths, 2);
       },
       {"lengths_k and cu_seqlens_q are both given"}},
      {"offsets of Q only",
       [](SmallProblem& s) {
         pack(s);
         s.attention.cu_seqlens_k = {};
       },
       {"cu_seqlens_q is given but cu_seqlens_k is not"}},
      {"offsets of K only",
       [](SmallProblem& s) {
         pack(s);
         s.attention.cu_seqlens_q = {};
       },
       {"cu_seqlens_k is given but cu_seqlens_q is not"}},
      {"offsets differ in count",
       [](SmallProblem& s) {
         pack(s);
         s.attention.cu_seqlens_k.count = 2;
       },
       {"cu_seqlens_q has count 3 but cu_seqlens_k has 2"}},
      {"offsets from 1",
       [](SmallProblem& s) {
         static const std::int32_t bad[3] = {1, 1, 3};
         pack(s);
         s.attention.cu_seqlens_q = view_index(bad, 3);
       },
       {"cu_seqlens_q[0] is 1", "must be 0"}},
      {"offsets decrease",
       [](SmallProblem& s) {
         static const std::int32_t bad[3] = {0, 4, 3};
         pack(s);
         s.attention.cu_seqlens_q = view_index(bad, 3);
       },
       {"cu_seqlens_q[2] is 3 after 4"}},
      {"offsets end early",
       [](SmallProblem& s) {
         static const std::int32_t bad[3] = {0, 1, 2};
         pack(s);
         s.attention.cu_seqlens_q = view_index(bad, 3);
       },
       {"cu_seqlens_q[2] is 2", "sequence 3"}},
      {"offsets end late",
       [](SmallProblem& s) {
         static const std::int64_t bad[3] = {0, 1, 6};
         pack(s);
         s.attention.cu_seqlens_k = view_index(bad, 3);
       },
       {"cu_seqlens_k[2] is 6", "sequence 5"}},
      {"packed, batch 2",
       [](SmallProblem& s) {
         s.attention.cu_seqlens_q = view_index(kOffsetsQ, 3);
         s.attention.cu_seqlens_k = view_index(kOffsetsK, 3);
       },
       {"batch 1", "Q has batch 2"}},

      {"packed bound too small",
       [](SmallProblem& s) {
         pack(s);
         s.attention.max_seqlen_k = 4;
       },
       {"max_seqlen_k is 4 but sequence 1 of cu_seqlens_k has 5"}},
      {"packed bound negative",
       [](SmallProblem& s) {
         pack(s);
         s.attention.max_seqlen_q = -1;
       },
       {"max_seqlen_q is -1", "0 (not known)"}},
      {"bound without offsets",
       [](SmallProblem& s) { s.attention.max_seqlen_q = 3; },
       {"max_seqlen_q is 3 but no cu_seqlens are given"}},

      {"bias rows",
       [](SmallProblem& s) {
         s.add_bias({2, 4, 2, 5});
       },
       {"bias has shape [2, 4, 2, 5]", "[2 or 1, 4 or 1, 3 or 1, 5]"}},
      {"bias keys",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 4});
       },
       {"bias has shape [1, 1, 1, 4]", "5]"}},
      {"bias keys not broadcast",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 1});
       },
       {"bias has shape [1, 1, 1, 1]"}},
      {"bias heads",
       [](SmallProblem& s) {
         s.add_bias({1, 2, 1, 5});
       },
       {"bias has shape [1, 2, 1, 5]"}},
      {"bias dtype",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 5});
         s.attention.bias.dtype = DType::bf16;
       },
       {"bias is bf16", "fp32"}},
      {"bias null",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 5});
         s.attention.bias.data = nullptr;
       },
       {"bias is null", "[1, 1, 1, 5]"}},
      {"bias misaligned",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 5});
         shift(s.attention.bias, 1);
       },
       {"bias at 0x"}},
      {"bias last stride",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 3, 5});
         s.attention.bias.stride[3] = 3;
       },
       {"bias has stride 3"}},
      {"bias without shape",
       [](SmallProblem& s) { s.attention.bias.data = s.array(1); },
       {"bias has shape [0, 0, 0, 0]"}},

      {"mask rows",
       [](SmallProblem& s) {
         s.attention.mask = view_mask(s.array(8), {2, 4, 2, 5});
       },
       {"mask has shape [2, 4, 2, 5]", "[2 or 1, 4 or 1, 3 or 1, 5 or 1]"}},
      {"mask keys",
       [](SmallProblem& s) {
         s.attention.mask = view_mask(s.array(8), {1, 1, 1, 4});
       },
       {"mask has shape [1, 1, 1, 4]"}},
      {"mask negative size",
       [](SmallProblem& s) {
         s.attention.mask = view_mask(s.array(8), {1, 1, -3, 5});
       },
       {"mask has sequence -3"}},
      {"mask without shape",
       [](SmallProblem& s) { s.attention.mask.data = s.array(1); },
       {"mask has shape [0, 0, 0, 0]"}},
      {"mask strides",
       [](SmallProblem& s) {
         s.attention.mask = {s.array(8), {2, 4, 3, 5}, {kHuge, 0, 0, 1}};
       },
       {"mask of shape [2, 4, 3, 5]", "2^56"}},
      {"null mask",
       [](SmallProblem& s) {
         s.attention.mask = view_mask(nullptr, {1, 1, 3, 5});
       },
       {"mask is null", "[1, 1, 3, 5]"}},
      {"slopes stride without slopes",
       [](SmallProblem& s) { s.attention.alibi_batch_stride = 4; },
       {"alibi_batch_stride is 4 but alibi_slopes is not given"}},
      {"slopes stride negative",
       [](SmallProblem& s) {
         s.attention.alignment = Alignment::top_left;
         s.attention.alibi_slopes = s.array(8);
         s.attention.alibi_batch_stride = -4;
       },
       {"alibi_batch_stride is -4", "valid are 0"}},
      {"slopes stride huge",
       [](SmallProblem& s) {
         s.attention.alignment = Alignment::top_left;
         s.attention.alibi_slopes = s.array(8);
         s.attention.alibi_batch_stride = kHuge;
       },
       {"alibi_batch_stride is 9223372036854775807"}},
      {"too few first keys",
       [](SmallProblem& s) { s.attention.first_keys = view_index(kLengths, 1); },
       {"first_keys has count 1 but there are 2 sequences"}},
      {"first key past the end",
       [](SmallProblem& s) {
         static const std::int32_t bad[2] = {0, 6};
         s.attention.first_keys = view_index(bad, 2);
       },
       {"first_keys[1] is 6", "0 to 5"}},
      {"first key negative",
       [](SmallProblem& s) {
         static const std::int64_t bad[2] = {-1, 0};
         s.attention.first_keys = view_index(bad, 2);
       },
       {"first_keys[0] is -1"}},
      {"first keys null",
       [](SmallProblem& s) {
         s.attention.first_keys = {nullptr, 32, 2};
       },
       {"first_keys is null", "2 elements"}},
      {"seed twice",
       [](SmallProblem& s) {
         s.attention.dropout = {.p = 0.5f, .seed = 7, .seed_data = reinterpret_cast<std::uint64_t*>(s.array(2))};
       },
       {"seed 7 and seed_data"}},
      {"seed misaligned",
       [](SmallProblem& s) {
         const auto address = (reinterpret_cast<std::uintptr_t>(s.array(4)) | 7) - 3;
         s.attention.dropout.seed_data = reinterpret_cast<const std::uint64_t*>(address);
       },
       {"dropout seed_data at 0x", "8 bytes"}},

      {"threads -1", [](SmallProblem& s) { s.execution.threads = -1; }, {"threads is -1", "1024"}},
      {"threads 1025", [](SmallProblem& s) { s.execution.threads = 1025; }, {"threads is 1025", "1024"}},
      {"unknown device",
       [](SmallProblem& s) { s.execution.device = static_cast<Device>(5); },
       {"unknown device 5", "cuda"}},
      {"unknown kernel",
       [](SmallProblem& s) { s.execution.kernel = "Pytorch"; },
       {"unknown kernel 'Pytorch'", "flash2, frugal, standard, reference"}},
      {"workspace misaligned",
       [](SmallProblem& s) {
         s.execution.workspace = shifted(s.array(1024), 4);
         s.execution.workspace_bytes = std::size_t{1} << 40;
       },
       {"workspace at 0x", "64 bytes"}},
      {"workspace null with bytes",
       [](SmallProblem& s) { s.execution.workspace_bytes = 4096; },
       {"workspace is null", "4096"}},
  };
  return list;
}

}  // namespace strobe::test
