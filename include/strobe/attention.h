// Exact attention: O = softmax(scale * Q K^T + mask) V, and its gradients.
//
//   strobe::Attention attention{.q = view_bhsd(q, DType::fp32, {B, H, S, D}), .k = ..., .v = ..., .causal = true};
//   strobe::forward(attention, {.o = view_bhsd(o, DType::fp32, {B, H, S, D}), .lse = lse});
//
// Ownership: the caller owns every tensor, array, workspace and stream. No function keeps a pointer after it returns,
// except that work queued on a CUDA stream uses the memory until that work completes.
// Threads: every function may be called concurrently, if no call writes memory that another call uses. A call on the
// CPU uses the worker threads of the process and returns when the outputs are complete. Concurrent calls share the
// workers and together use about one thread per core. Workers start at the first call, block all signals, and end with
// the process. A child of fork() may call every function and gets its own workers; a fork() during a call is safe.
// Errors: functions report errors by throwing strobe::Error or std::bad_alloc. If the code is invalid_argument or
// unsupported, nothing was written. No function prints or ends the process.
// Platforms: Linux on x86-64 and aarch64, with g++ 12 or clang 14 and later. The library uses Linux system calls, so
// macOS and Windows are not supported.
// Versions: the layout of these structs changes with the minor version. Compile and link with the same one, 0.1.x. The
// C ABI in strobe.h stays compatible. Floating point: the CPU computes in the IEEE default mode (round to nearest,
// subnormals kept, no traps). The calling thread's mode is restored before the function returns; its exception flags
// are unspecified afterwards.
//
// Sizes: B batch, Hq and Hkv heads, Sq rows (queries), Sk keys, D head dimension of Q and K, Dv head dimension of V.
#pragma once

#if __cplusplus <= 201703L
#error "strobe/attention.h needs C++20: compile with -std=c++20 or later. C and older C++: include strobe/strobe.h."
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strobe/dtype.h"
#include "strobe/error.h"
#include "strobe/executor.h"
#include "strobe/view.h"

namespace strobe {

// Diagonal of a causal mask, a window or ALiBi: row i is aligned with key i + offset.
enum class Alignment {
  unset,        // accepted only if Sq == Sk, or if there is no causal mask, window or ALiBi
  top_left,     // offset = 0
  bottom_right  // offset = Sk - Sq, per sequence
};

// Sliding window: row i uses keys i + offset - left to i + offset + right, inclusive. -1 removes the limit.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;
};

// Drops each element of P, the softmax of the scores, with probability t / 65536. Scales the others by 65536 / (65536 -
// t). t is 65536 p rounded to an integer, at most 65535. Philox4x32-10 computes the 16 random bits of an element from
// (seed, b, hq, i, j). So both passes, all kernels and all devices drop the same elements.
struct Dropout {
  float p = 0;  // 0 <= p < 1; 0 disables dropout
  std::uint64_t seed = 0;
  // If not null, the seed is read from here during the call, and `seed` must be 0. CPU only; CUDA kernels refuse it.
  const std::uint64_t* seed_data = nullptr;
};

// The attention problem. Pass the same description to forward and backward.
struct Attention {
  // Q, K and V have the same dtype and the same B. Strides are free, except that the last one is 1.
  ConstView q;  // [B, Hq, Sq, D]; 1 <= D
  ConstView k;  // [B, Hkv, Sk, D]; Hq is a multiple of Hkv; Hq / Hkv consecutive query heads share a KV head
  ConstView v;  // [B, Hkv, Sk, Dv]; 1 <= Dv

  std::optional<float> scale{};  // default: 1 / sqrt(D)

  bool causal = false;                     // row i uses keys j <= i + offset
  Window window{};                         // if combined with causal, a row uses keys that both allow
  Alignment alignment = Alignment::unset;  // required if Sq != Sk and there is a causal mask, a window or ALiBi

  // These options modify the score s = scale * q.k in this order, before masking.
  float softcap = 0;                    // s = softcap * tanh(s / softcap); 0 disables it, else 1e-30 to 1e30
  const float* alibi_slopes = nullptr;  // [Hq] or [B, Hq]; s -= slope * |i + offset - j|
  ConstView bias{};                     // [B or 1, Hq or 1, Sq or 1, Sk], fp32 or the dtype of Q; s += bias

  const float* sinks = nullptr;  // [Hq]; one extra logit per head in the softmax, without a value; included in LSE
  Dropout dropout{};

  // Variable length. Other threads must not change these arrays during a call.
  // Padded batch: lengths per sequence, [B], 0 to Sq and 0 to Sk. Rows and keys past a length are masked.
  IndexView lengths_q{};
  IndexView lengths_k{};
  // Packed batch: B is 1 and sequences are adjacent along S. The cumulative offsets [sequences + 1] go from 0 to Sq and
  // from 0 to Sk.
  IndexView cu_seqlens_q{};
  IndexView cu_seqlens_k{};
  // Packed batch: upper bounds of the sequence lengths; 0 if unknown. A bias has shape [sequences or 1, Hq or 1,
  // max_seqlen_q or 1, max_seqlen_k]; on the CPU the longest lengths replace unknown bounds in this shape. CUDA does
  // not read the offsets before launch, so it replaces an unknown bound by the total number of rows or keys. That costs
  // time and workspace. On CUDA a bias or mask requires max_seqlen_q and max_seqlen_k, except for dimensions of size 1.
  std::int64_t max_seqlen_q = 0;
  std::int64_t max_seqlen_k = 0;

  // Boolean mask [B or 1, Hq or 1, Sq or 1, Sk or 1]: a row uses a key only if the mask allows it too. In a packed
  // batch, replace B, Sq and Sk by the sizes that a bias has there. A masked pair of a row and a key does not affect
  // any output if Q, K and V are finite. A NaN or infinity in a key may reach masked rows of the same tile (CUDA), or
  // of the same head (kernels `standard` and `frugal`).
  MaskView mask{};
  // Elements from the slopes of one sequence to those of the next, if alibi_slopes is [B, Hq]. 0: alibi_slopes is [Hq],
  // shared by all sequences.
  std::int64_t alibi_batch_stride = 0;
  // Left padding: the first key of each sequence, one integer from 0 to Sk per sequence. Earlier keys are masked. This
  // does not change the indices of rows and keys or the offset of the diagonal.
  IndexView first_keys{};
};

// Outputs must not share memory with an input, another output or the workspace. Interleaved tensors in one allocation
// are valid if they share no element.
struct ForwardOutputs {
  View o;                // [B, Hq, Sq, Dv], dtype of Q
  float* lse = nullptr;  // [B, Hq, Sq]: natural log of the sum of exp(score); optional. backward needs it
  std::array<std::int64_t, 3> lse_stride{};  // batch, head, row, in elements; all zero: contiguous, as CUDA requires
};

struct BackwardInputs {
  ConstView o;                                 // output of forward
  const float* lse = nullptr;                  // output of forward; required
  ConstView d_o{};                             // gradient of O, [B, Hq, Sq, Dv]; every stride may be 0
  std::array<std::int64_t, 3> lse_stride{};    // as in ForwardOutputs
  const float* d_lse = nullptr;                // gradient of LSE, [B, Hq, Sq]; null: 0. Ignored where LSE is -inf
  std::array<std::int64_t, 3> d_lse_stride{};  // in elements; all zero: contiguous
};

// Gradients are overwritten, not accumulated. Shapes and dtypes are those of the inputs, except where stated.
struct Gradients {
  View dq, dk, dv;
  View dbias{};             // fp32; optional, requires bias
  float* dsinks = nullptr;  // [Hq]; optional, requires sinks
};

enum class Pass { forward, backward };
enum class Device { cpu, cuda };

// Options that affect speed and rounding only.
// CUDA: every pointer of a call, including lengths, offsets, slopes and sinks, must be in device memory of the calling
// thread's current GPU. The call queues work on `stream` and returns. It allocates nothing, so CUDA graphs can capture
// it. Lengths and offsets outside their tensors are clamped without an error.
struct Execution {
  Device device = Device::cpu;
  std::string_view kernel{};  // a name from kernel_names(); empty: the first kernel that supports the problem
  int threads = 0;            // CPU: number of threads, which does not affect results; 0: all cores of the process
  bool deterministic = true;  // CUDA: backward gives bitwise identical results in every run, as the CPU always does
  bool tf32 = false;          // CUDA, fp32: kernels may use TF32 MMA (10-bit mantissa) with fp32 accumulation.
                              // explain() shows whether the chosen kernel does
  void* stream = nullptr;     // CUDA: the caller's cudaStream_t
  void* workspace = nullptr;  // aligned to 64 bytes (CUDA: 256). If null, the library allocates one on the CPU; on CUDA
                              // null is valid only if workspace_bytes() is 0
  std::size_t workspace_bytes = 0;  // size of workspace in bytes; at least the result of workspace_bytes()
  // Makes the bits of a row of O and LSE independent of batch, chunking of the queries and padding. For forward on the
  // CPU with finite inputs; backward ignores it. Costs speed (docs/kernels-cpu.md).
  bool batch_invariant = false;
  Executor executor{};    // CPU: runs the tasks of the call; default: the process's worker threads
  Allocator allocator{};  // CPU: provides the workspace if `workspace` is null; default: aligned_alloc
};

// Computes O, and LSE if requested. Fully masked rows get O = 0 and LSE = -inf.
// Throws invalid_argument for bad input, unsupported if every kernel, or the named one, refuses the problem.
//
//   forward(attention, {.o = o, .lse = lse});
//   forward(attention, {.o = o}, {.device = Device::cuda, .stream = stream, .workspace = w, .workspace_bytes = bytes});
void forward(const Attention& attention, const ForwardOutputs& outputs, const Execution& execution = {});

// Computes dQ, dK, dV, and dbias and dsinks if requested. Rows and keys that are fully masked get gradients of 0.
// Throws as forward does.
//
//   backward(attention, {.o = o, .lse = lse, .d_o = d_o}, {.dq = dq, .dk = dk, .dv = dv});
void backward(const Attention& attention, const BackwardInputs& inputs, const Gradients& gradients,
              const Execution& execution = {});

// Returns the bytes of workspace that a pass needs. Query once per problem and reuse the memory.
// Data pointers of tensors may be null. alibi_slopes and sinks are tested for null only. On the CPU lengths and
// cumulative offsets are read. Throws as forward does.
//
//   std::vector<char> memory(workspace_bytes(attention, Pass::forward) + 64);  // + 64: room to align
std::size_t workspace_bytes(const Attention& attention, Pass pass, const Execution& execution = {});

// Describes whether a kernel supports a problem, and how it would compute the result.
struct Verdict {
  std::string kernel;
  std::string refusal;              // reason why the kernel does not support the problem; empty if it does
  std::string configuration;        // such as tile sizes and instruction set; empty if refused
  std::size_t workspace_bytes = 0;  // 0 if refused
  bool chosen = false;              // forward or backward would run this kernel
};

// Returns the kernel names of a device, in the order in which they are tried. Does not throw strobe::Error.
std::vector<std::string> kernel_names(Device device);

// Returns one Verdict per kernel of the device, in the order in which they are tried. Takes the same arguments as
// workspace_bytes(). Throws for bad input, but not if every kernel refuses.
//
//   for (const Verdict& verdict : explain(attention, Pass::backward)) if (verdict.chosen) puts(verdict.kernel.c_str());
std::vector<Verdict> explain(const Attention& attention, Pass pass, const Execution& execution = {});

}  // namespace strobe
