/* Uses an installed Strobe from C11: a single key returns its value, and bad input gives a status and a message. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "strobe/strobe.h"

int main(void) {
  const float q[4] = {1, 2, 3, 4}, k[4] = {4, 3, 2, 1}, v[4] = {5, 6, 7, 8};
  float o[4] = {0};
  strobe_attention attention;
  if (strobe_attention_init(&attention, sizeof attention) != STROBE_OK) return 1;
  attention.q = strobe_const_bhsd(q, STROBE_FP32, 1, 1, 1, 4);
  attention.k = strobe_const_bhsd(k, STROBE_FP32, 1, 1, 1, 4);
  attention.v = strobe_const_bhsd(v, STROBE_FP32, 1, 1, 1, 4);
  strobe_forward_outputs outputs = {.size = sizeof outputs, .o = strobe_bhsd(o, STROBE_FP32, 1, 1, 1, 4)};
  if (strobe_forward(&attention, &outputs, NULL) != STROBE_OK) return 1;
  for (int i = 0; i < 4; ++i) {
    if (!(fabsf(o[i] - v[i]) <= 2e-6f * v[i])) return 1;
  }
  if (strcmp(strobe_version(), STROBE_VERSION_STRING) != 0) return 1;

  attention.k.shape[3] = 3;
  const strobe_status status = strobe_forward(&attention, &outputs, NULL);
  printf("C: %s\n", strobe_last_error());
  return status == STROBE_INVALID_ARGUMENT ? 0 : 1;
}
