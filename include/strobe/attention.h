// Exact attention: O = softmax(scale * Q K^T + mask) V, and the gradients of Q, K, V from that of O.
//
//   strobe::Attention attention{.q = view_bhsd(q, DType::fp32, {B, H, S, D}), .k = ..., .v = ..., .causal = true};
//   strobe::forward(attention, {.o = view_bhsd(o, DType::fp32, {B, H, S, D}), .lse = lse});
//
// Every function throws strobe::Error for bad input, prints nothing and never ends the process. On the CPU all
// arithmetic uses the IEEE default mode (round to nearest, subnormals kept, no traps). The calling thread's mode is
// restored before the function returns. Exception flags are unspecified afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strobe/dtype.h"
#include "strobe/error.h"
#include "strobe/view.h"

namespace strobe {

// Where the diagonal of a causal mask, a window or ALiBi lies when there are more keys than queries, or fewer:
// row i stands at key i + offset, offset = 0 (top_left) or Sk - Sq (bottom_right).
enum class Alignment { unsaid, top_left, bottom_right };

// Row i may use the keys i + offset - left .. i + offset + right; -1 leaves that side open.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
};

// Drops normalised weight (b, hq, i, j) with probability p, by Philox4x32-10 keyed by the seed; scales the others
// by 1 / (1 - p). The same weights are dropped in both passes, on every device and by every kernel.
struct Dropout {
  float p = 0;
  std::uint64_t seed = 0;
};

// What is computed. The same description serves forward and backward.
struct Attention {
  ConstView q;  // [B, Hq, Sq, D]
  ConstView k;  // [B, Hkv, Sk, D]    Hq is a multiple of Hkv: consecutive query heads share a KV head
  ConstView v;  // [B, Hkv, Sk, Dv]

  std::optional<float> scale{};  // default 1 / sqrt(D)

  bool causal = false;                      // row i uses the keys j <= i + offset
  Window window{};                          // combines with causal
  Alignment alignment = Alignment::unsaid;  // must be said where it matters: Sq != Sk with causal, window or ALiBi

  // Applied in this order to s = scale * q.k, before the mask.
  float softcap = 0;                    // softcap * tanh(s / softcap); 0 turns it off, else 1e-30 to 1e30
  const float* alibi_slopes = nullptr;  // [Hq]: s - slope * |i + offset - j|
  ConstView bias{};                     // [B or 1, Hq or 1, Sq or 1, Sk], fp32 or the dtype of q

  const float* sinks = nullptr;  // [Hq]: one more logit per head, without a value, counted in LSE
  Dropout dropout{};

  // Variable length, two ways. These arrays must not change during a call. Padded: per-sequence lengths, [B] each; rows
  // and keys past them are masked.
  IndexView lengths_q{};
  IndexView lengths_k{};
  // Packed: sequences back to back along S in views with batch 1; cumulative offsets, [sequences + 1] each.
  IndexView cu_seqlens_q{};
  IndexView cu_seqlens_k{};
  // Packed: no sequence is longer than these; 0: not known. The shape of a bias is theirs where they are given. On
  // CUDA, where offsets are not read before the kernels run, an unknown one counts as the total: correct, with more
  // work and workspace; and a bias needs both.
  std::int64_t max_seqlen_q = 0;
  std::int64_t max_seqlen_k = 0;
};

// An output must share no memory with an input, another output or the workspace. Interleaved tensors in one allocation
// are valid if they share no element.
struct ForwardOutputs {
  View o;                // [B, Hq, Sq, Dv]
  float* lse = nullptr;  // [B, Hq, Sq], contiguous; natural log of the sum of exp(score); optional
};

struct BackwardInputs {
  ConstView o;                 // what forward wrote
  const float* lse = nullptr;  // what forward wrote; required
  ConstView d_o{};             // gradient of o, [B, Hq, Sq, Dv]; stride 0 is accepted in every dimension
};

struct Gradients {
  View dq, dk, dv;          // of the shapes of q, k, v
  View dbias{};             // fp32, of the shape of bias; optional
  float* dsinks = nullptr;  // [Hq]; optional
};

enum class Pass { forward, backward };
enum class Device { cpu, cuda };

// How it is computed. Nothing here changes what is computed beyond rounding.
// On CUDA every pointer of a call, those of lengths, offsets, slopes and sinks included, is to memory of the calling
// thread's current GPU. Work is put on `stream` and not waited for; nothing is allocated, and lengths or offsets that
// do not fit their tensors are cut to them, not reported.
struct Execution {
  Device device = Device::cpu;
  std::string_view kernel{};  // empty: the first kernel that supports the problem; a name forces that one
  int threads = 0;            // CPU: 0 is all cores of this process. Results are bitwise the same for any number
  bool deterministic = true;  // backward bitwise repeatable from run to run; always so on the CPU
  bool tf32 = false;          // CUDA, fp32: products may round elements to the 11 bits of tf32; sums and weights stay
                              // fp32. A kernel that does not round stays exact; explain() tells
  void* stream = nullptr;     // CUDA: the caller's cudaStream_t
  void* workspace = nullptr;  // at least workspace_bytes(...), aligned to 64 (CUDA: 256); null on the CPU: the library
                              // allocates; null on CUDA: only where workspace_bytes(...) is 0
  std::size_t workspace_bytes = 0;
};

void forward(const Attention& attention, const ForwardOutputs& outputs, const Execution& execution = {});

void backward(const Attention& attention, const BackwardInputs& inputs, const Gradients& gradients,
              const Execution& execution = {});

// Bytes that a pass needs beyond its inputs and outputs. Data pointers of tensors may be null here; alibi_slopes and
// sinks mean by not being null that they are there, and lengths and cumulative offsets are read (CPU).
std::size_t workspace_bytes(const Attention& attention, Pass pass, const Execution& execution = {});

// What each kernel says of a problem, in the order in which they are tried.
struct Verdict {
  std::string kernel;
  std::string refusal;              // empty: supported
  std::string configuration;        // tiles and instruction set, where supported
  std::size_t workspace_bytes = 0;  // where supported
  bool chosen = false;
};

// Names that Execution::kernel may have on a device, in order of preference; whether one takes a problem, explain()
// says.
std::vector<std::string> kernel_names(Device device);

// Data pointers may be null here as in workspace_bytes.
std::vector<Verdict> explain(const Attention& attention, Pass pass, const Execution& execution = {});

}  // namespace strobe
