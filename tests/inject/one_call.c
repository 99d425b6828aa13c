/* one_call forward|backward KERNEL THREADS [MEGABYTES]: makes one call of the C ABI, then repeats it.
 * With fail_allocations preloaded, the allocations of the first call are counted and the chosen ones fail. With
 * MEGABYTES, the address space is limited to that size and there is no second call. The program itself allocates
 * nothing. Exit code 0: every call returned STROBE_OK; outputs of forward are correct, and gradients of both calls are
 * equal (not checked with MEGABYTES). 3: the first call returned STROBE_OUT_OF_MEMORY or STROBE_RUNTIME with an error
 * message, and the second call, if any, succeeded. 1: anything else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "strobe/strobe.h"

enum { B = 1, H = 2, S = 80, D = 16, COUNT = B * H * S * D, ROWS = B * H * S };

char strobe_counts_itself = 1; /* fail_allocations looks for this symbol: this program starts the count itself */
void strobe_count_allocations(int on) __attribute__((weak));

static float q[COUNT], k[COUNT], v[COUNT], d_o[COUNT], o[COUNT], lse[ROWS];
static float expected_o[COUNT], expected_lse[ROWS];
static float first[3][COUNT], second[3][COUNT];

static void say(const char* text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(1);
}

static int fail_with(const char* what) {
  say("one_call: ");
  say(what);
  say("\n");
  return 1;
}

static void fill(float* values, unsigned seed) {
  for (int i = 0; i < COUNT; ++i) values[i] = (float)((i * 2654435761u + seed) % 2001u) * 1e-3f - 1;
}

/* Computes attention by its definition, in double precision. */
static void compute_expected(void) {
  static double p[S];
  for (int row = 0; row < ROWS; ++row) {
    const int head = row / S * S;
    double sum = 0, out[D] = {0};
    for (int j = 0; j < S; ++j) {
      double score = 0;
      for (int c = 0; c < D; ++c) score += (double)q[row * D + c] * k[(head + j) * D + c];
      sum += p[j] = exp(score / sqrt(D));
    }
    for (int j = 0; j < S; ++j) {
      for (int c = 0; c < D; ++c) out[c] += p[j] / sum * v[(head + j) * D + c];
    }
    for (int c = 0; c < D; ++c) expected_o[row * D + c] = (float)out[c];
    expected_lse[row] = (float)log(sum);
  }
}

static int near(const float* values, const float* expected, int count) {
  for (int i = 0; i < count; ++i) {
    if (!(fabsf(values[i] - expected[i]) < 1e-4f)) return 0;
  }
  return 1;
}

static strobe_status call(int backward, const strobe_execution* execution, float (*gradients)[COUNT]) {
  strobe_attention attention;
  strobe_attention_init(&attention, sizeof attention);
  attention.q = strobe_const_bhsd(q, STROBE_FP32, B, H, S, D);
  attention.k = strobe_const_bhsd(k, STROBE_FP32, B, H, S, D);
  attention.v = strobe_const_bhsd(v, STROBE_FP32, B, H, S, D);
  if (!backward) {
    const strobe_forward_outputs outputs = {
        .size = sizeof outputs, .o = strobe_bhsd(o, STROBE_FP32, B, H, S, D), .lse = lse};
    return strobe_forward(&attention, &outputs, execution);
  }
  const strobe_backward_inputs inputs = {.size = sizeof inputs,
                                         .o = strobe_const_bhsd(expected_o, STROBE_FP32, B, H, S, D),
                                         .lse = expected_lse,
                                         .d_o = strobe_const_bhsd(d_o, STROBE_FP32, B, H, S, D)};
  const strobe_gradients to = {.size = sizeof to,
                               .dq = strobe_bhsd(gradients[0], STROBE_FP32, B, H, S, D),
                               .dk = strobe_bhsd(gradients[1], STROBE_FP32, B, H, S, D),
                               .dv = strobe_bhsd(gradients[2], STROBE_FP32, B, H, S, D)};
  return strobe_backward(&attention, &inputs, &to, execution);
}

static int forward_is_right(void) { return near(o, expected_o, COUNT) && near(lse, expected_lse, ROWS); }

int main(int count, char** words) {
  if (count < 4) return fail_with("usage: one_call forward|backward KERNEL THREADS [MEGABYTES]");
  const int backward = strcmp(words[1], "backward") == 0, limited = count > 4;
  fill(q, 1), fill(k, 2), fill(v, 3), fill(d_o, 4);
  compute_expected();
  strobe_execution execution;
  strobe_execution_init(&execution, sizeof execution);
  execution.kernel = words[2];
  execution.threads = atoi(words[3]);
  if (limited) {
    const struct rlimit limit = {(rlim_t)atoi(words[4]) << 20, (rlim_t)atoi(words[4]) << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return fail_with("cannot limit the address space");
  }

  if (strobe_count_allocations) strobe_count_allocations(1);
  const strobe_status status = call(backward, &execution, first);
  if (strobe_count_allocations) strobe_count_allocations(0);
  if (status == STROBE_OK && !backward && !forward_is_right()) return fail_with("wrong values");
  if (status != STROBE_OK && status != STROBE_OUT_OF_MEMORY && status != STROBE_RUNTIME) {
    return fail_with(strobe_last_error());
  }
  if (status != STROBE_OK) {
    if (strobe_last_error()[0] == '\0') return fail_with("an error without a message");
    say(strobe_status_name(status)), say(": "), say(strobe_last_error()), say("\n");
  }
  if (limited) return status == STROBE_OK ? 0 : 3;

  if (call(backward, &execution, second) != STROBE_OK) return fail_with("the second call failed");
  if (!backward && !forward_is_right()) return fail_with("wrong values after the second call");
  if (status != STROBE_OK) return 3;
  return backward && memcmp(first, second, sizeof first) != 0 ? fail_with("the gradients of the two calls differ") : 0;
}
