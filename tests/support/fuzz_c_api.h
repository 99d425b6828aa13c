// Interprets any bytes as arguments of the C ABI. The library must reject a call with a one-line error, or write only
// to the outputs and the workspace. Called by libFuzzer (tests/fuzz) and by the test that replays its corpus.
//
// The input describes a small valid problem and then overwrites fields of its structs. Pointers always point into real
// buffers; input bytes never become an address. If a tensor exceeds its buffer, only strobe_workspace_bytes() and
// strobe_explain() are called, because the library cannot check the size of the caller's memory.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "strobe/strobe.h"
#include "support/fuzz_bytes.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Returns blocks of exactly `bytes` bytes, so AddressSanitizer detects an access to the first byte past each.
template <std::size_t Count>
std::array<std::unique_ptr<std::byte[]>, Count> blocks_of(std::size_t bytes) {
  std::array<std::unique_ptr<std::byte[]>, Count> made;
  for (auto& block : made) block = std::make_unique<std::byte[]>(bytes);
  return made;
}

class CApiCall {
 public:
  explicit CApiCall(FuzzBytes bytes) : bytes_(bytes) {
    fill_buffers();
    describe();
    for (std::int64_t patches = bytes_.between(0, 3); patches > 0; --patches) patch();
  }

  // Makes the calls. Returns true if any of them computed outputs.
  bool run() {
    const std::int32_t pass = bytes_.one_in(2) ? STROBE_PASS_BACKWARD : STROBE_PASS_FORWARD;
    query(pass);
    if (!is_small()) return false;
    return pass == STROBE_PASS_FORWARD ? run_forward() : run_backward();
  }

 private:
  // Index of each buffer. All lengths, offsets and first keys are in kIndices.
  enum Buffer {
    kQ,
    kK,
    kV,
    kO,
    kDo,
    kDq,
    kDk,
    kDv,
    kBias,
    kDbias,
    kLse,
    kSlopes,
    kSinks,
    kDsinks,
    kIndices,
    kMask,
    kDlse,
    kWorkspace,
    kBuffers
  };
  static constexpr std::size_t kBufferBytes = 1 << 12;
  // More than the largest struct `size` that the library accepts.
  static constexpr std::size_t kStructBytes = (1 << 16) + 64;
  static constexpr std::int64_t kMostElements = 1024;  // per tensor, if the call computes

  template <class T>
  T* at(Buffer which) {
    return reinterpret_cast<T*>(buffers_[which].get());
  }
  template <class T>
  T& in_struct(std::size_t which) {
    return *reinterpret_cast<T*>(structs_[which].get());
  }
  strobe_attention& attention() { return in_struct<strobe_attention>(0); }
  strobe_forward_outputs& outputs() { return in_struct<strobe_forward_outputs>(1); }
  strobe_backward_inputs& inputs() { return in_struct<strobe_backward_inputs>(2); }
  strobe_gradients& gradients() { return in_struct<strobe_gradients>(3); }
  strobe_execution& execution() { return in_struct<strobe_execution>(4); }

  // Fills the buffers with small values of either sign that are finite in every element type.
  void fill_buffers() {
    for (int which = 0; which < kBuffers; ++which) {
      for (std::size_t i = 0; i < kBufferBytes; ++i) {
        const bool high = i % 2 == 1;
        buffers_[static_cast<std::size_t>(which)][i] =
            static_cast<std::byte>(high ? 0x3c | (i * 37 & 0x80) : i * 29 + 7);
      }
    }
    for (int i = 0; i < 16; ++i) {
      at<std::int32_t>(kIndices)[i] = static_cast<std::int32_t>(bytes_.one_in(16) ? nasty() : bytes_.between(0, 6));
    }
  }

  template <class View, class Void>
  View view(Void* data, std::int32_t dtype, std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) {
    const strobe_view made =
        bytes_.one_in(3) ? strobe_bshd(nullptr, dtype, b, h, s, d) : strobe_bhsd(nullptr, dtype, b, h, s, d);
    View result;
    std::memcpy(&result, &made, sizeof result);
    result.data = data;
    return result;
  }

  void describe() {
    gradients() = {}, outputs() = {}, inputs() = {};
    strobe_attention_init(&attention(), sizeof(strobe_attention));
    strobe_execution_init(&execution(), sizeof(strobe_execution));
    outputs().size = sizeof(strobe_forward_outputs);
    inputs().size = sizeof(strobe_backward_inputs);
    gradients().size = sizeof(strobe_gradients);
    const std::int64_t b = bytes_.between(0, 2), heads_kv = bytes_.between(1, 2),
                       heads = heads_kv * bytes_.between(1, 3), sq = bytes_.between(0, 7), sk = bytes_.between(0, 7),
                       d = bytes_.between(1, 8), dv = bytes_.one_in(3) ? bytes_.between(1, 8) : d;
    const auto dtype = static_cast<std::int32_t>(bytes_.between(0, 2));
    strobe_attention& a = attention();
    a.q = view<strobe_const_view>(at<void>(kQ), dtype, b, heads, sq, d);
    a.k = view<strobe_const_view>(at<void>(kK), dtype, b, heads_kv, sk, d);
    a.v = view<strobe_const_view>(at<void>(kV), dtype, b, heads_kv, sk, dv);
    describe_options(b, heads, sq, sk, dtype);
    outputs().o = view<strobe_view>(at<void>(kO), dtype, b, heads, sq, dv);
    outputs().lse = at<float>(kLse);
    inputs().o = view<strobe_const_view>(at<void>(kO), dtype, b, heads, sq, dv);
    inputs().lse = at<float>(kLse);
    inputs().d_o = view<strobe_const_view>(at<void>(kDo), dtype, b, heads, sq, dv);
    gradients().dq = view<strobe_view>(at<void>(kDq), dtype, b, heads, sq, d);
    gradients().dk = view<strobe_view>(at<void>(kDk), dtype, b, heads_kv, sk, d);
    gradients().dv = view<strobe_view>(at<void>(kDv), dtype, b, heads_kv, sk, dv);
    describe_execution();
  }

  void describe_options(std::int64_t b, std::int64_t heads, std::int64_t sq, std::int64_t sk, std::int32_t dtype) {
    strobe_attention& a = attention();
    a.causal = bytes_.one_in(2);
    a.alignment = static_cast<std::int32_t>(bytes_.between(0, 2));
    if (bytes_.one_in(3)) a.window_left = bytes_.between(-1, 9), a.window_right = bytes_.between(-1, 9);
    if (bytes_.one_in(4)) a.scale_given = 1, a.scale = 0.5f;
    if (bytes_.one_in(4)) a.alibi_slopes = at<float>(kSlopes);
    if (bytes_.one_in(4)) a.sinks = at<float>(kSinks), gradients().dsinks = at<float>(kDsinks);
    if (bytes_.one_in(4)) a.softcap = 5;
    if (bytes_.one_in(4)) a.dropout_p = 0.25f, a.dropout_seed = bytes_.take<std::uint64_t>();
    if (bytes_.one_in(3)) {
      a.bias =
          view<strobe_const_view>(at<void>(kBias), bytes_.one_in(2) ? dtype : STROBE_FP32, bytes_.one_in(2) ? 1 : b,
                                  bytes_.one_in(2) ? 1 : heads, bytes_.one_in(2) ? 1 : sq, sk);
      const auto& shape = a.bias.shape;
      if (bytes_.one_in(2))
        gradients().dbias = view<strobe_view>(at<void>(kDbias), STROBE_FP32, shape[0], shape[1], shape[2], shape[3]);
    }
    const auto indices = [&](std::int64_t count) {
      return strobe_index_view{at<std::int32_t>(kIndices) + bytes_.between(0, 8), 32, count};
    };
    if (bytes_.one_in(8)) a.first_keys = indices(b);
    if (bytes_.one_in(4)) {
      a.mask.data = at<void>(kMask);
      const std::int64_t shape[4] = {bytes_.one_in(2) ? 1 : b, bytes_.one_in(2) ? 1 : heads, bytes_.one_in(2) ? 1 : sq,
                                     bytes_.one_in(4) ? 1 : sk};
      const std::int64_t stride[4] = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
      std::copy_n(shape, 4, a.mask.shape), std::copy_n(stride, 4, a.mask.stride);
    }
    if (bytes_.one_in(6) && a.alibi_slopes) a.alibi_batch_stride = heads;
    if (bytes_.one_in(8)) a.dropout_seed = 0, a.dropout_seed_data = at<std::uint64_t>(kSlopes);
    const std::int64_t strides[3] = {heads, 1, b * heads};
    if (bytes_.one_in(4)) std::copy_n(strides, 3, outputs().lse_stride), std::copy_n(strides, 3, inputs().lse_stride);
    if (bytes_.one_in(4)) inputs().d_lse = at<float>(kDlse);
    if (bytes_.one_in(4)) a.lengths_q = indices(b);
    if (bytes_.one_in(4)) a.lengths_k = indices(b);
    if (bytes_.one_in(6)) {
      const std::int64_t sequences = bytes_.between(0, 4);
      a.cu_seqlens_q = indices(sequences + 1), a.cu_seqlens_k = indices(sequences + 1);
    }
  }

  void describe_execution() {
    static constexpr const char* kKernels[] = {nullptr, "", "flash2", "frugal", "standard", "reference", "unknown"};
    execution().kernel = bytes_.pick(kKernels);
    execution().threads = bytes_.one_in(8) ? 2 : 1;
    execution().batch_invariant = bytes_.one_in(8);
    if (bytes_.one_in(4)) {
      execution().workspace = at<void>(kWorkspace);
      execution().workspace_bytes = kBufferBytes - static_cast<std::size_t>(bytes_.between(0, 255));
    }
  }

  // Overwrites eight or four bytes of a struct. A pointer is replaced by null, an address in a buffer, or an unknown
  // kernel name.
  void patch() {
    struct PatchTarget {
      std::size_t bytes;
      std::vector<std::size_t> pointers;
    };
    static const std::array<PatchTarget, 5> kTargets{
        PatchTarget{sizeof(strobe_attention),
                    {offsetof(strobe_attention, q), offsetof(strobe_attention, k), offsetof(strobe_attention, v),
                     offsetof(strobe_attention, alibi_slopes), offsetof(strobe_attention, bias),
                     offsetof(strobe_attention, sinks), offsetof(strobe_attention, lengths_q),
                     offsetof(strobe_attention, lengths_k), offsetof(strobe_attention, cu_seqlens_q),
                     offsetof(strobe_attention, cu_seqlens_k), offsetof(strobe_attention, mask),
                     offsetof(strobe_attention, first_keys), offsetof(strobe_attention, dropout_seed_data)}},
        PatchTarget{sizeof(strobe_forward_outputs),
                    {offsetof(strobe_forward_outputs, o), offsetof(strobe_forward_outputs, lse)}},
        PatchTarget{sizeof(strobe_backward_inputs),
                    {offsetof(strobe_backward_inputs, o), offsetof(strobe_backward_inputs, lse),
                     offsetof(strobe_backward_inputs, d_o), offsetof(strobe_backward_inputs, d_lse)}},
        PatchTarget{sizeof(strobe_gradients),
                    {offsetof(strobe_gradients, dq), offsetof(strobe_gradients, dk), offsetof(strobe_gradients, dv),
                     offsetof(strobe_gradients, dbias), offsetof(strobe_gradients, dsinks)}},
        PatchTarget{
            offsetof(strobe_execution, executor),  // ends before the function pointers of executor and allocator
            {offsetof(strobe_execution, kernel), offsetof(strobe_execution, stream),
             offsetof(strobe_execution, workspace)}}};
    const std::size_t which = bytes_.take<std::uint8_t>() % kTargets.size();
    const std::size_t offset = bytes_.take<std::uint16_t>() % kTargets[which].bytes / 4 * 4;
    for (const std::size_t pointer : kTargets[which].pointers) {
      if (offset / 8 * 8 == pointer) return patch_pointer(which, pointer);
    }
    const std::uint64_t value = bytes_.one_in(2) ? bytes_.take<std::uint64_t>() : nasty();
    const std::size_t width = offset % 8 == 0 && bytes_.one_in(2) ? 8 : 4;
    std::memcpy(structs_[which].get() + offset, &value, width);
  }

  void patch_pointer(std::size_t which, std::size_t offset) {
    const bool is_name = which == 4 && offset == offsetof(strobe_execution, kernel);
    const void* pointer = nullptr;
    if (is_name) {
      pointer = "no such kernel\n\x1b[31m";
    } else if (!bytes_.one_in(3)) {
      pointer = buffers_[bytes_.take<std::uint8_t>() % kBuffers].get() + bytes_.take<std::uint8_t>();
    }
    std::memcpy(structs_[which].get() + offset, &pointer, sizeof pointer);
  }

  std::uint64_t nasty() {
    static constexpr std::uint64_t kValues[] = {0,
                                                1,
                                                2,
                                                8,
                                                0xffffffff,
                                                0x7fffffff,
                                                1u << 31,
                                                0x7f800000,
                                                0x7fc00000,
                                                0xff800000,
                                                0x7fffffffffffffff,
                                                std::uint64_t{1} << 63,
                                                std::uint64_t{1} << 62,
                                                std::uint64_t{1} << 32,
                                                std::uint64_t{1} << 40,
                                                ~std::uint64_t{0}};
    return bytes_.pick(kValues);
  }

  // Appends the address and size of each element of a tensor to `covered`, if not null. Returns false if the tensor
  // exceeds its buffer, is large, has an unknown type, or is in kIndices.
  template <class View>
  bool elements(const View& view, std::vector<std::pair<const std::byte*, std::size_t>>* covered) {
    if (view.data == nullptr) return true;
    if (view.dtype < 0 || view.dtype > 2) return false;
    const std::size_t size = view.dtype == STROBE_FP32 ? 4 : 2;
    std::int64_t count = 1;
    for (const std::int64_t extent : view.shape) {
      if (extent < 0 || extent > kMostElements) return false;
      count *= extent;
    }
    if (count > kMostElements) return false;
    for (const std::int64_t stride : view.stride) {
      if (stride < -kMostElements || stride > kMostElements) return false;
    }
    const auto* const data = static_cast<const std::byte*>(view.data);
    const std::byte* const buffer = buffer_of(data);
    if (buffer == nullptr || buffer == buffers_[kIndices].get()) return false;
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i, offset = 0;
      for (std::size_t axis = 4; axis-- > 0;) {
        offset += rest % view.shape[axis] * view.stride[axis];
        rest /= view.shape[axis];
      }
      const std::int64_t byte = (data - buffer) + offset * static_cast<std::int64_t>(size);
      if (byte < 0 || byte + static_cast<std::int64_t>(size) > static_cast<std::int64_t>(kBufferBytes)) return false;
      if (covered) covered->emplace_back(buffer + byte, size);
    }
    return true;
  }

  const std::byte* buffer_of(const std::byte* pointer) const {
    for (const auto& buffer : buffers_) {
      if (pointer >= buffer.get() && pointer < buffer.get() + kBufferBytes) return buffer.get();
    }
    return nullptr;
  }

  bool has_room(const void* pointer, std::int64_t count, std::size_t size) const {
    if (pointer == nullptr || count <= 0) return true;
    const std::byte* const buffer = buffer_of(static_cast<const std::byte*>(pointer));
    if (buffer == nullptr || count > kMostElements) return false;
    return static_cast<const std::byte*>(pointer) + count * static_cast<std::int64_t>(size) <= buffer + kBufferBytes;
  }

  bool has_room(const float* values, std::int64_t count) const {
    return !is_index(values) && has_room(values, count, sizeof(float));
  }

  // Returns true if the lengths are inside the buffer kIndices. No output may be in this buffer, because a caller must
  // not let outputs overwrite lengths.
  bool has_room(const strobe_index_view& view) const {
    return view.data == nullptr || (is_index(view.data) && has_room(view.data, view.count, view.bits == 64 ? 8 : 4));
  }

  bool is_index(const void* pointer) const {
    return buffer_of(static_cast<const std::byte*>(pointer)) == buffers_[kIndices].get();
  }

  // Returns true if all memory that a call may access is inside its buffers, so a memory error is the library's fault.
  bool is_small() {
    const strobe_attention& a = attention();
    bool holds = elements(a.q, nullptr) && elements(a.k, nullptr) && elements(a.v, nullptr) &&
                 elements(a.bias, nullptr) && elements(outputs().o, nullptr) && elements(inputs().o, nullptr) &&
                 elements(inputs().d_o, nullptr) && elements(gradients().dq, nullptr) &&
                 elements(gradients().dk, nullptr) && elements(gradients().dv, nullptr) &&
                 elements(gradients().dbias, nullptr);
    const std::int64_t heads = a.q.shape[1];
    holds = holds && heads >= 0 && heads <= kMostElements && a.q.shape[0] >= 0 && a.q.shape[2] >= 0 &&
            a.q.shape[0] <= kMostElements && a.q.shape[2] <= kMostElements;
    if (!holds) return false;
    const strobe_const_view slopes = {
        a.alibi_slopes, STROBE_FP32, {a.q.shape[0], 1, 1, heads}, {a.alibi_batch_stride, 0, 0, 1}};
    const std::int64_t sequences = std::max(a.q.shape[0], std::max<std::int64_t>(a.cu_seqlens_q.count, 1) - 1);
    const bool packed = a.cu_seqlens_q.data != nullptr;
    return elements(lse_view(outputs().lse, outputs().lse_stride), nullptr) &&
           elements(lse_view(inputs().lse, inputs().lse_stride), nullptr) &&
           elements(lse_view(inputs().d_lse, inputs().d_lse_stride), nullptr) && elements(slopes, nullptr) &&
           (!packed || a.alibi_slopes == nullptr || a.alibi_batch_stride == 0 || sequences <= a.q.shape[0]) &&
           has_mask_room(a.mask) && has_room(a.first_keys) &&
           (is_index(a.dropout_seed_data) ? false : has_room(a.dropout_seed_data, 1, 8)) && has_room(a.sinks, heads) &&
           has_room(gradients().dsinks, heads) && has_room(a.lengths_q) && has_room(a.lengths_k) &&
           has_room(a.cu_seqlens_q) && has_room(a.cu_seqlens_k) && execution().threads <= 3 && has_workspace();
  }

  // Returns LSE or its gradient as a view [B, Hq, Sq, 1].
  strobe_const_view lse_view(const float* data, const std::int64_t (&stride)[3]) {
    const auto& q = attention().q.shape;
    if (stride[0] == 0 && stride[1] == 0 && stride[2] == 0)
      return strobe_const_bhsd(data, STROBE_FP32, q[0], q[1], q[2], 1);
    return {data, STROBE_FP32, {q[0], q[1], q[2], 1}, {stride[0], stride[1], stride[2], 1}};
  }

  // Returns true if every element of the mask is inside its buffer.
  bool has_mask_room(const strobe_mask_view& mask) const {
    if (mask.data == nullptr) return true;
    const auto* const data = static_cast<const std::byte*>(mask.data);
    const std::byte* const buffer = buffer_of(data);
    std::int64_t low = 0, high = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      if (mask.shape[i] < 0 || mask.shape[i] > kMostElements) return false;
      if (mask.stride[i] < -kMostElements || mask.stride[i] > kMostElements) return false;
      const std::int64_t reach = std::max<std::int64_t>(0, mask.shape[i] - 1) * mask.stride[i];
      (reach < 0 ? low : high) += reach;
    }
    return buffer != nullptr && data + low >= buffer && data + high < buffer + kBufferBytes;
  }

  bool has_workspace() {
    const strobe_execution& e = execution();
    if (e.workspace == nullptr || e.workspace_bytes == 0) return true;
    const std::byte* const buffer = buffer_of(static_cast<const std::byte*>(e.workspace));
    return buffer == buffers_[kWorkspace].get() &&
           e.workspace_bytes <=
               kBufferBytes - static_cast<std::size_t>(static_cast<const std::byte*>(e.workspace) - buffer);
  }

  static bool is_ok(strobe_status status) {
    if (status == STROBE_OK) return true;
    const std::string_view line = strobe_last_error();
    require(status == STROBE_INVALID_ARGUMENT || status == STROBE_UNSUPPORTED || status == STROBE_OUT_OF_MEMORY,
            "a description is rejected as invalid, unsupported or too large");
    require(line.starts_with("attention: ") && is_printable(line),
            "an error is one printable line that begins with attention:");
    return false;
  }

  void query(std::int32_t pass) {
    std::size_t bytes = 0, needed = 0;
    char text[64];
    const bool accepted = is_ok(strobe_workspace_bytes(&attention(), pass, &execution(), &bytes));
    const bool explained = is_ok(strobe_explain(&attention(), pass, &execution(), text, sizeof text, &needed));
    require(!explained || text[std::min(needed, sizeof text) - 1] == '\0', "the text of explain() ends with a zero");
    require(!accepted || explained, "explain() accepts every problem that workspace_bytes() accepts");
  }

  std::vector<std::byte> snapshot() const {
    std::vector<std::byte> all;
    for (const auto& buffer : buffers_) all.insert(all.end(), buffer.get(), buffer.get() + kBufferBytes);
    return all;
  }

  using Covered = std::vector<std::pair<const std::byte*, std::size_t>>;

  // Requires that no byte outside the outputs and the workspace has changed.
  void require_untouched(const std::vector<std::byte>& before, const Covered& written) const {
    std::vector<std::byte> after = snapshot();
    const auto restore = [&](const std::byte* from, std::size_t bytes) {
      for (std::size_t which = 0; which < kBuffers; ++which) {
        const std::byte* const buffer = buffers_[which].get();
        if (from < buffer || from >= buffer + kBufferBytes) continue;
        const std::size_t begin = which * kBufferBytes + static_cast<std::size_t>(from - buffer);
        std::memcpy(after.data() + begin, before.data() + begin, bytes);
      }
    };
    for (const auto& [from, bytes] : written) restore(from, bytes);
    restore(buffers_[kWorkspace].get(), kBufferBytes);
    require(after == before, "a call writes only to its outputs and its workspace");
  }

  void cover(Covered& written, float* values, std::int64_t count) {
    if (values != nullptr && count > 0)
      written.emplace_back(reinterpret_cast<const std::byte*>(values), 4 * static_cast<std::size_t>(count));
  }

  bool run_forward() {
    const std::vector<std::byte> before = snapshot();
    if (!is_ok(strobe_forward(&attention(), &outputs(), &execution()))) {
      require(snapshot() == before, "a rejected call writes nothing");
      return false;
    }
    Covered written;
    elements(outputs().o, &written);
    elements(lse_view(outputs().lse, outputs().lse_stride), &written);
    require_untouched(before, written);
    return true;
  }

  bool run_backward() {
    const std::vector<std::byte> before = snapshot();
    if (!is_ok(strobe_backward(&attention(), &inputs(), &gradients(), &execution()))) {
      require(snapshot() == before, "a rejected call writes nothing");
      return false;
    }
    Covered written;
    for (const strobe_view* view : {&gradients().dq, &gradients().dk, &gradients().dv, &gradients().dbias}) {
      elements(*view, &written);
    }
    cover(written, gradients().dsinks, attention().q.shape[1]);
    require_untouched(before, written);
    return true;
  }

  FuzzBytes bytes_;
  // Shared by all inputs, because allocating them takes longer than a call.
  inline static const auto buffers_ = blocks_of<kBuffers>(kBufferBytes);
  inline static const auto structs_ = blocks_of<5>(kStructBytes);
};

// Returns true if a call computed outputs.
inline bool fuzz_c_api(const std::uint8_t* data, std::size_t bytes) { return CApiCall(FuzzBytes(data, bytes)).run(); }

}  // namespace strobe::test
