/* Strobe's C ABI: exact attention, forward and backward, for C11 and any language that calls C.
 *
 *   strobe_attention attention;
 *   strobe_attention_init(&attention, sizeof attention);
 *   attention.q = strobe_const_bhsd(q, STROBE_FP32, B, H, S, D);            ... k, v; attention.causal = 1;
 *   strobe_forward_outputs outputs = {.size = sizeof outputs, .o = strobe_bhsd(o, STROBE_FP32, B, H, S, D)};
 *   if (strobe_forward(&attention, &outputs, NULL) != STROBE_OK) puts(strobe_last_error());
 *
 * Ownership: the caller owns every struct, tensor, array, workspace and stream. No function keeps a pointer after it
 * returns, except that work queued on a CUDA stream uses the memory until that work completes.
 * Threads: every function may be called concurrently, if no call writes memory that another call uses. Concurrent calls
 * on the CPU share the worker threads of the process. The error text is per thread.
 * Errors: functions return a status; STROBE_OK is 0. After any other status strobe_last_error() returns one line of
 * text. After STROBE_INVALID_ARGUMENT or STROBE_UNSUPPORTED nothing was written. No function prints, ends the process
 * or throws a C++ exception. The calling thread's floating-point mode does not affect results and is restored before a
 * function returns.
 *
 * Sizes: B batch, Hq and Hkv heads, Sq rows (queries), Sk keys, D head dimension of Q and K, Dv that of V. attention.h
 * documents the same fields for C++. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "strobe/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Incremented when an existing declaration changes its meaning. Only structs that start with `size` may grow: new
 * fields are appended, and their value 0 selects the old behaviour. A program therefore works with an older or newer
 * library.
 */
#define STROBE_ABI_VERSION 1

typedef enum strobe_status {
  STROBE_OK = 0,
  STROBE_INVALID_ARGUMENT = 1, /* shapes, strides, pointers, options */
  STROBE_UNSUPPORTED = 2,      /* valid input that every kernel, or the named one, refuses */
  STROBE_OUT_OF_MEMORY = 3,
  STROBE_RUNTIME = 4 /* the device, a library or the system failed */
} strobe_status;

/* Values of the int32_t fields and parameters below: dtype, alignment, pass, device. */
enum { STROBE_FP32 = 0, STROBE_FP16 = 1, STROBE_BF16 = 2 };
enum { STROBE_ALIGNMENT_UNSAID = 0, STROBE_TOP_LEFT = 1, STROBE_BOTTOM_RIGHT = 2 };
enum { STROBE_PASS_FORWARD = 0, STROBE_PASS_BACKWARD = 1 };
enum { STROBE_CPU = 0, STROBE_CUDA = 1 };

/* A tensor [batch, heads, sequence, dim]. Strides are in elements. The last one must be 1 (for dO it may be 0). All
 * fields zero: not given. */
typedef struct strobe_view {
  void* data;
  int32_t dtype;
  int64_t shape[4];
  int64_t stride[4];
} strobe_view;

typedef struct strobe_const_view {
  const void* data;
  int32_t dtype;
  int64_t shape[4];
  int64_t stride[4];
} strobe_const_view;

/* A boolean mask [batch, heads, sequence, keys], one byte per element: 0 masks the pair, any other value allows it.
 * Strides are in elements and free; 0 repeats the mask along that dimension. All fields zero: no mask. */
typedef struct strobe_mask_view {
  const void* data;
  int64_t shape[4];
  int64_t stride[4];
} strobe_mask_view;

/* Lengths (one integer per sequence) or cumulative offsets (number of sequences + 1 integers). All fields zero: not
 * given. */
typedef struct strobe_index_view {
  const void* data; /* int32_t or int64_t */
  int32_t bits;     /* bits per integer: 32 or 64 */
  int64_t count;    /* number of integers */
} strobe_index_view;

/* The attention problem. Initialize it with strobe_attention_init(), which sets `size`, sets both sides of the window
 * to -1, and sets all other fields to zero. Pass the same description to forward and backward. */
typedef struct strobe_attention {
  size_t size; /* sizeof(strobe_attention) */

  strobe_const_view q; /* [B, Hq, Sq, D] */
  strobe_const_view k; /* [B, Hkv, Sk, D]; Hq is a multiple of Hkv */
  strobe_const_view v; /* [B, Hkv, Sk, Dv] */

  int32_t scale_given; /* 0: the scale is 1 / sqrt(D) */
  float scale;         /* used if scale_given is not 0 */

  int32_t causal;       /* 1: row i uses keys j <= i + offset */
  int32_t alignment;    /* STROBE_TOP_LEFT: offset = 0. STROBE_BOTTOM_RIGHT: offset = Sk - Sq, per sequence. Required
                           if Sq != Sk and there is a causal mask, a window or ALiBi */
  int64_t window_left;  /* row i uses keys j >= i + offset - window_left; -1: no limit */
  int64_t window_right; /* row i uses keys j <= i + offset + window_right; -1: no limit */

  const float* alibi_slopes; /* [Hq] or [B, Hq]; score -= slope * |i + offset - j|; null: none */
  strobe_const_view bias;    /* [B or 1, Hq or 1, Sq or 1, Sk], fp32 or the dtype of q; added to the score */
  const float* sinks;        /* [Hq]; one extra logit per head in the softmax, without a value; null: none */
  float softcap;             /* score = softcap * tanh(score / softcap); 0: off, else 1e-30 to 1e30 */
  float dropout_p;           /* probability of dropping an element, 0 <= p < 1 */
  uint64_t dropout_seed;     /* the same seed drops the same elements in both passes */

  strobe_index_view lengths_q;    /* padded batch: [B], each 0 to Sq */
  strobe_index_view lengths_k;    /* padded batch: [B], each 0 to Sk */
  strobe_index_view cu_seqlens_q; /* packed batch: [sequences + 1], from 0 to Sq */
  strobe_index_view cu_seqlens_k; /* packed batch: [sequences + 1], from 0 to Sk */

  /* Packed batch: upper bounds of the sequence lengths; 0 if unknown. On CUDA a bias or mask requires both,
   * except for its dimensions of size 1. */
  int64_t max_seqlen_q;
  int64_t max_seqlen_k;

  strobe_mask_view mask;             /* [B or 1, Hq or 1, Sq or 1, Sk or 1]; a row uses only keys that it allows */
  int64_t alibi_batch_stride;        /* elements from one sequence's slopes to the next's; 0: slopes are [Hq] */
  strobe_index_view first_keys;      /* left padding: first key of each sequence, 0 to Sk; earlier keys are masked */
  const uint64_t* dropout_seed_data; /* CPU only: if not null, points to the seed, and dropout_seed must be 0 */
} strobe_attention;

/* Outputs must not share memory with an input, another output or the workspace. */
typedef struct strobe_forward_outputs {
  size_t size;           /* sizeof(strobe_forward_outputs) */
  strobe_view o;         /* [B, Hq, Sq, Dv], dtype of q */
  float* lse;            /* [B, Hq, Sq]: natural log of the sum of exp(score); optional. backward needs it */
  int64_t lse_stride[3]; /* batch, head, row, in elements; all zero: contiguous, as CUDA requires */
} strobe_forward_outputs;

typedef struct strobe_backward_inputs {
  size_t size;             /* sizeof(strobe_backward_inputs) */
  strobe_const_view o;     /* output of forward */
  const float* lse;        /* output of forward; required */
  strobe_const_view d_o;   /* gradient of O, [B, Hq, Sq, Dv]; every stride may be 0 */
  int64_t lse_stride[3];   /* as in strobe_forward_outputs */
  const float* d_lse;      /* gradient of LSE, [B, Hq, Sq]; null: 0. Ignored where LSE is -inf */
  int64_t d_lse_stride[3]; /* in elements; all zero: contiguous */
} strobe_backward_inputs;

/* Gradients are overwritten, not accumulated. */
typedef struct strobe_gradients {
  size_t size;       /* sizeof(strobe_gradients) */
  strobe_view dq;    /* shape and dtype of q */
  strobe_view dk;    /* shape and dtype of k */
  strobe_view dv;    /* shape and dtype of v */
  strobe_view dbias; /* fp32, shape of bias; optional, requires bias */
  float* dsinks;     /* [Hq]; optional, requires sinks */
} strobe_gradients;

/* The caller's own threads, for calls on the CPU. run() must call task(task_context, i) once for each i in [0, count)
 * and return when all calls have ended. The calls may run concurrently and on any thread. They must start in
 * increasing order of i, because a task may wait for an earlier one. */
typedef struct strobe_executor {
  void (*run)(void* context, int32_t count, void (*task)(void* task_context, int32_t index), void* task_context);
  void* context;
} strobe_executor;

/* Provides the workspace of calls on the CPU whose `workspace` is null. allocate() must return memory aligned to 64
 * bytes, or null if there is none. deallocate() is called with the same pointer and size before the call returns. */
typedef struct strobe_allocator {
  void* (*allocate)(void* context, size_t bytes);
  void (*deallocate)(void* context, void* pointer, size_t bytes);
  void* context;
} strobe_allocator;

/* Options that affect speed and rounding only. Initialize the struct with strobe_execution_init(); a null
 * strobe_execution* means the same defaults. CUDA: every pointer of a call must be in device memory of the calling
 * thread's current GPU. The call queues work on `stream` and returns. It allocates nothing, so CUDA graphs can capture
 * the call. Lengths and offsets outside their tensors are clamped without an error. */
typedef struct strobe_execution {
  size_t size;                /* sizeof(strobe_execution) */
  int32_t device;             /* STROBE_CPU or STROBE_CUDA */
  int32_t threads;            /* CPU: number of threads; 0: all cores of the process */
  int32_t deterministic;      /* CUDA: backward gives bitwise identical results in every run; default 1 */
  int32_t tf32;               /* CUDA, fp32: kernels may use TF32 MMA (10-bit mantissa); default 0 */
  const char* kernel;         /* kernel name; null or empty: the first kernel that supports the problem */
  void* stream;               /* CUDA: the caller's cudaStream_t */
  void* workspace;            /* aligned to 64 bytes (CUDA: 256). If null, the library allocates one on the CPU */
  size_t workspace_bytes;     /* size of workspace; at least strobe_workspace_bytes() */
  int32_t batch_invariant;    /* 1: the bits of a row of O and LSE do not depend on batch, chunking of the queries or
                                 padding. For forward on the CPU with finite inputs; backward ignores it */
  strobe_executor executor;   /* CPU: runs the tasks of the call; all zero: the worker threads of the process */
  strobe_allocator allocator; /* CPU: provides the workspace if `workspace` is null; all zero: aligned_alloc */
} strobe_execution;

/* Set the defaults. `size` is sizeof(*attention) or sizeof(*execution) in the caller.
 * Return STROBE_INVALID_ARGUMENT if the pointer is null or the size is smaller than that of ABI version 1. */
strobe_status strobe_attention_init(strobe_attention* attention, size_t size);
strobe_status strobe_execution_init(strobe_execution* execution, size_t size);

/* Computes O, and LSE if requested. Fully masked rows get O = 0 and LSE = -inf. `execution` may be null.
 *
 *   strobe_forward_outputs outputs = {.size = sizeof outputs, .o = o, .lse = lse};
 *   strobe_status status = strobe_forward(&attention, &outputs, NULL); */
strobe_status strobe_forward(const strobe_attention* attention, const strobe_forward_outputs* outputs,
                             const strobe_execution* execution);

/* Computes dQ, dK, dV, and dbias and dsinks if requested. `execution` may be null.
 *
 *   strobe_backward_inputs inputs = {.size = sizeof inputs, .o = const_o, .lse = lse, .d_o = d_o};
 *   strobe_gradients gradients = {.size = sizeof gradients, .dq = dq, .dk = dk, .dv = dv};
 *   strobe_status status = strobe_backward(&attention, &inputs, &gradients, NULL); */
strobe_status strobe_backward(const strobe_attention* attention, const strobe_backward_inputs* inputs,
                              const strobe_gradients* gradients, const strobe_execution* execution);

/* Writes to *bytes the workspace that a pass needs, in bytes. `pass` is STROBE_PASS_FORWARD or STROBE_PASS_BACKWARD.
 * Data pointers of tensors may be null; lengths and offsets are read on the CPU. `execution` may be null.
 *
 *   size_t bytes;
 *   strobe_workspace_bytes(&attention, STROBE_PASS_BACKWARD, &execution, &bytes); */
strobe_status strobe_workspace_bytes(const strobe_attention* attention, int32_t pass, const strobe_execution* execution,
                                     size_t* bytes);

/* Writes one line per kernel, in the order in which they are tried: chosen, supported, or refused with the reason.
 * Writes at most `capacity` bytes to `buffer` and terminates the text unless capacity is 0. Sets *needed to the length
 * of the whole text including its terminator. `needed` and `execution` may be null. Data pointers may be null as in
 * strobe_workspace_bytes().
 *
 *   char text[4096];
 *   if (strobe_explain(&attention, STROBE_PASS_FORWARD, NULL, text, sizeof text, NULL) == STROBE_OK) puts(text); */
strobe_status strobe_explain(const strobe_attention* attention, int32_t pass, const strobe_execution* execution,
                             char* buffer, size_t capacity, size_t* needed);

/* Writes the kernel names of a device (STROBE_CPU or STROBE_CUDA), one per line, in the order in which they are tried.
 * `buffer`, `capacity` and `needed` are as in strobe_explain().
 *
 *   char names[256];
 *   if (strobe_kernel_names(STROBE_CPU, names, sizeof names, NULL) == STROBE_OK) puts(names); */
strobe_status strobe_kernel_names(int32_t device, char* buffer, size_t capacity, size_t* needed);

/* Returns one line of text about the calling thread's last call that failed, or "" if none has failed. The library owns
 * the text, which is valid until the thread's next call. */
const char* strobe_last_error(void);

/* Returns the name of a status, such as "invalid_argument", or "unknown" for any other value. Static storage. */
const char* strobe_status_name(strobe_status status);

const char* strobe_version(void); /* version of the linked library, such as "0.1.0"; static storage */
int32_t strobe_abi_version(void); /* STROBE_ABI_VERSION of the linked library */

/* Used by the functions below. Wraps on overflow; the function that takes the view rejects such sizes. */
static inline int64_t strobe_product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* Return a view of a contiguous tensor with memory order [b, h, s, d]. The data is not read or copied. */
static inline strobe_view strobe_bhsd(void* data, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t d) {
  strobe_view view = {data, dtype, {b, h, s, d}, {strobe_product(h, strobe_product(s, d)), strobe_product(s, d), d, 1}};
  return view;
}

static inline strobe_const_view strobe_const_bhsd(const void* data, int32_t dtype, int64_t b, int64_t h, int64_t s,
                                                  int64_t d) {
  strobe_const_view view = {
      data, dtype, {b, h, s, d}, {strobe_product(h, strobe_product(s, d)), strobe_product(s, d), d, 1}};
  return view;
}

/* Return a view of a contiguous tensor with memory order [b, s, h, d]. A packed batch [total, H, D] has b = 1 and
 * s = total. */
static inline strobe_view strobe_bshd(void* data, int32_t dtype, int64_t b, int64_t h, int64_t s, int64_t d) {
  strobe_view view = {data, dtype, {b, h, s, d}, {strobe_product(s, strobe_product(h, d)), d, strobe_product(h, d), 1}};
  return view;
}

static inline strobe_const_view strobe_const_bshd(const void* data, int32_t dtype, int64_t b, int64_t h, int64_t s,
                                                  int64_t d) {
  strobe_const_view view = {
      data, dtype, {b, h, s, d}, {strobe_product(s, strobe_product(h, d)), d, strobe_product(h, d), 1}};
  return view;
}

#ifdef __cplusplus
}
#endif
