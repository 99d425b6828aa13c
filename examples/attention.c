/* Forward and backward with the C ABI. Checks every status, and shows the error of an invalid argument. */
#include <stdio.h>
#include <stdlib.h>

#include "strobe/strobe.h"

enum { B = 1, H = 2, S = 64, D = 32, COUNT = B * H * S * D }; /* batch, heads, sequence length, head dimension */

static float q[COUNT], k[COUNT], v[COUNT], o[COUNT], d_o[COUNT], dq[COUNT], dk[COUNT], dv[COUNT], lse[B * H * S];

static void check(strobe_status status, const char* what) {
  if (status == STROBE_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, strobe_status_name(status), strobe_last_error());
  exit(1);
}

static strobe_const_view in(const float* data) { return strobe_const_bhsd(data, STROBE_FP32, B, H, S, D); }
static strobe_view out(float* data) { return strobe_bhsd(data, STROBE_FP32, B, H, S, D); }

/* Returns a number between -1 and 1. */
static float number(int i, int factor) { return (float)(i * factor % 201 - 100) / 100; }

int main(void) {
  for (int i = 0; i < COUNT; ++i) {
    q[i] = number(i, 37);
    k[i] = number(i, 91);
    v[i] = number(i, 53);
    d_o[i] = number(i, 71);
  }
  if (strobe_abi_version() != STROBE_ABI_VERSION) {
    fprintf(stderr, "the library has ABI version %d, but this program was compiled for %d\n", (int)strobe_abi_version(),
            STROBE_ABI_VERSION);
    return 1;
  }

  strobe_attention attention;
  check(strobe_attention_init(&attention, sizeof attention), "init");
  attention.q = in(q);
  attention.k = in(k);
  attention.v = in(v);
  attention.causal = 1;
  strobe_execution execution;
  check(strobe_execution_init(&execution, sizeof execution), "init");
  execution.threads = 1;

  const strobe_forward_outputs outputs = {.size = sizeof outputs, .o = out(o), .lse = lse};
  check(strobe_forward(&attention, &outputs, &execution), "forward");
  const strobe_backward_inputs inputs = {.size = sizeof inputs, .o = in(o), .lse = lse, .d_o = in(d_o)};
  const strobe_gradients gradients = {.size = sizeof gradients, .dq = out(dq), .dk = out(dk), .dv = out(dv)};
  check(strobe_backward(&attention, &inputs, &gradients, &execution), "backward");
  printf("strobe %s: o %f, lse %f, dq %f, dk %f, dv %f\n", strobe_version(), o[COUNT - 1], lse[B * H * S - 1],
         dq[COUNT - 1], dk[COUNT - 1], dv[COUNT - 1]);

  size_t bytes = 0;
  check(strobe_workspace_bytes(&attention, STROBE_PASS_BACKWARD, &execution, &bytes), "workspace");
  printf("backward needs %zu bytes of workspace\n", bytes);

  /* With an invalid argument, the call returns an error status, sets one line of text and writes no output. */
  attention.k.shape[3] = D / 2;
  const strobe_status status = strobe_forward(&attention, &outputs, &execution);
  printf("%s: %s\n", strobe_status_name(status), strobe_last_error());
  return status == STROBE_INVALID_ARGUMENT ? 0 : 1;
}
