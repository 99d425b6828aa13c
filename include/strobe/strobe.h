/* Strobe's C ABI: exact attention, forward and backward, for C11 and any language that calls C.
 *
 *   strobe_attention attention;
 *   strobe_attention_init(&attention, sizeof attention);
 *   attention.q = strobe_const_bhsd(q, STROBE_FP32, B, H, S, D);            ... k, v; attention.causal = 1;
 *   strobe_forward_outputs outputs = {.size = sizeof outputs, .o = strobe_bhsd(o, STROBE_FP32, B, H, S, D)};
 *   if (strobe_forward(&attention, &outputs, NULL) != STROBE_OK) puts(strobe_last_error());
 *
 * No function prints, ends the process or lets a C++ exception out. attention.h documents the fields. The calling
 * thread's floating-point mode has no effect on results and is restored before a function returns. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "strobe/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Grows by one when something already here changes its meaning. New fields only ever go to the end of a struct, where
 * zero means "as before": each struct begins with its size as the caller was compiled, so that both sides may differ
 * in age. */
#define STROBE_ABI_VERSION 1

typedef enum strobe_status {
  STROBE_OK = 0,
  STROBE_INVALID_ARGUMENT = 1, /* shapes, strides, pointers, options */
  STROBE_UNSUPPORTED = 2,      /* valid, but no kernel (or not the one asked for) does it */
  STROBE_OUT_OF_MEMORY = 3,
  STROBE_RUNTIME = 4 /* the device, a library underneath, or the system failed */
} strobe_status;

/* Values of the int32_t fields and parameters below. */
enum { STROBE_FP32 = 0, STROBE_FP16 = 1, STROBE_BF16 = 2 };
enum { STROBE_ALIGNMENT_UNSAID = 0, STROBE_TOP_LEFT = 1, STROBE_BOTTOM_RIGHT = 2 };
enum { STROBE_PASS_FORWARD = 0, STROBE_PASS_BACKWARD = 1 };
enum { STROBE_CPU = 0, STROBE_CUDA = 1 };

/* A tensor [batch, heads, sequence, dim]; strides in elements. All zero: absent. */
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

/* Lengths or cumulative offsets. All zero: absent. */
typedef struct strobe_index_view {
  const void* data; /* int32_t or int64_t */
  int32_t bits;     /* 32 or 64 */
  int64_t count;
} strobe_index_view;

/* What is computed. strobe_attention_init() gives the defaults: all zero but for the size and the open window. */
typedef struct strobe_attention {
  size_t size; /* sizeof(strobe_attention) */

  strobe_const_view q; /* [B, Hq, Sq, D] */
  strobe_const_view k; /* [B, Hkv, Sk, D] */
  strobe_const_view v; /* [B, Hkv, Sk, Dv] */

  int32_t scale_given; /* 0: 1 / sqrt(D) */
  float scale;

  int32_t causal;
  int32_t alignment;    /* must be said where it matters: Sq != Sk with causal, window or ALiBi */
  int64_t window_left;  /* -1: open */
  int64_t window_right; /* -1: open */

  const float* alibi_slopes; /* [Hq] */
  strobe_const_view bias;    /* [B or 1, Hq or 1, Sq or 1, Sk], fp32 or the dtype of q */
  const float* sinks;        /* [Hq] */
  float softcap;             /* 0: off, else 1e-30 to 1e30 */
  float dropout_p;
  uint64_t dropout_seed;

  strobe_index_view lengths_q; /* padded batch: [B] */
  strobe_index_view lengths_k;
  strobe_index_view cu_seqlens_q; /* packed batch: [sequences + 1] */
  strobe_index_view cu_seqlens_k;

  /* Packed batch: no sequence is longer; 0: not known. */
  int64_t max_seqlen_q;
  int64_t max_seqlen_k;
} strobe_attention;

typedef struct strobe_forward_outputs {
  size_t size;   /* sizeof(strobe_forward_outputs) */
  strobe_view o; /* [B, Hq, Sq, Dv] */
  float* lse;    /* [B, Hq, Sq]; optional */
} strobe_forward_outputs;

typedef struct strobe_backward_inputs {
  size_t size;           /* sizeof(strobe_backward_inputs) */
  strobe_const_view o;   /* what forward wrote */
  const float* lse;      /* what forward wrote */
  strobe_const_view d_o; /* gradient of o */
} strobe_backward_inputs;

typedef struct strobe_gradients {
  size_t size; /* sizeof(strobe_gradients) */
  strobe_view dq;
  strobe_view dk;
  strobe_view dv;
  strobe_view dbias; /* fp32, of the shape of bias; optional */
  float* dsinks;     /* [Hq]; optional */
} strobe_gradients;

/* How it is computed. A null pointer in its place means all defaults, as strobe_execution_init() writes them. On CUDA
 * every pointer of a call is to memory of the calling thread's current GPU; see attention.h. */
typedef struct strobe_execution {
  size_t size; /* sizeof(strobe_execution) */
  int32_t device;
  int32_t threads;        /* CPU: 0 is all cores of this process */
  int32_t deterministic;  /* backward bitwise repeatable; default 1 */
  int32_t tf32;           /* CUDA, fp32: products may round elements to 11 bits; default 0 */
  const char* kernel;     /* null or empty: the first that supports the problem */
  void* stream;           /* CUDA: the caller's stream */
  void* workspace;        /* null on the CPU: the library allocates; on CUDA: strobe_workspace_bytes() of GPU memory */
  size_t workspace_bytes; /* of workspace */
} strobe_execution;

/* `size` is sizeof of the caller's struct. */
strobe_status strobe_attention_init(strobe_attention* attention, size_t size);
strobe_status strobe_execution_init(strobe_execution* execution, size_t size);

strobe_status strobe_forward(const strobe_attention* attention, const strobe_forward_outputs* outputs,
                             const strobe_execution* execution);

strobe_status strobe_backward(const strobe_attention* attention, const strobe_backward_inputs* inputs,
                              const strobe_gradients* gradients, const strobe_execution* execution);

/* Bytes that a pass needs beyond its inputs and outputs. Data pointers of tensors may be null here. */
strobe_status strobe_workspace_bytes(const strobe_attention* attention, int32_t pass, const strobe_execution* execution,
                                     size_t* bytes);

/* What each kernel says of the problem, one line each, in the order in which they are tried. Writes at most `capacity`
 * bytes, always ended by a zero where capacity is not 0; *needed, where not null, is what the whole text takes with its
 * zero. Data pointers of tensors may be null here. */
strobe_status strobe_explain(const strobe_attention* attention, int32_t pass, const strobe_execution* execution,
                             char* buffer, size_t capacity, size_t* needed);

/* One line about the last call of this thread that did not return STROBE_OK; "" before any. Valid until the next call
 * on this thread. */
const char* strobe_last_error(void);

const char* strobe_status_name(strobe_status status); /* "invalid_argument" */

const char* strobe_version(void); /* of the library, "0.1.0" */
int32_t strobe_abi_version(void); /* STROBE_ABI_VERSION of the library */

/* For the views below. Wraps where the product is absurd: the call that takes the view refuses its sizes. */
static inline int64_t strobe_product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

/* Views of contiguous tensors. Memory order batch, heads, sequence, dim. */
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

/* Memory order batch, sequence, heads, dim. A packed batch of sequences [total, H, D] is this with b = 1, s = total. */
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
