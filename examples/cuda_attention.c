/* Forward and backward on a GPU with the C ABI: device pointers, the caller's stream and the caller's workspace. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "strobe/strobe.h"

enum { B = 1, H = 2, S = 128, D = 32, COUNT = B * H * S * D }; /* batch, heads, sequence length, head dimension */
static const size_t kBytes = COUNT * sizeof(float);
static float host[COUNT], grad[COUNT];

static void check(strobe_status status, const char* what) {
  if (status == STROBE_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, strobe_status_name(status), strobe_last_error());
  exit(1);
}

static void cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  exit(1);
}

static float* on_gpu(void) {
  void* data = NULL;
  cuda(cudaMalloc(&data, kBytes), "cudaMalloc");
  cuda(cudaMemcpy(data, host, kBytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return data;
}

static strobe_const_view in(const float* data) { return strobe_const_bhsd(data, STROBE_FP32, B, H, S, D); }
static strobe_view out(float* data) { return strobe_bhsd(data, STROBE_FP32, B, H, S, D); }

int main(void) {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return puts("skipped: this machine has no GPU"), 77;
  for (int i = 0; i < COUNT; ++i) host[i] = (float)(i * 37 % 201 - 100) / 100;
  float *q = on_gpu(), *k = on_gpu(), *v = on_gpu(), *o = on_gpu(), *lse = on_gpu(), *d_o = on_gpu();
  float *dq = on_gpu(), *dk = on_gpu(), *dv = on_gpu();
  cudaStream_t stream;
  cuda(cudaStreamCreate(&stream), "cudaStreamCreate");

  strobe_attention attention;
  strobe_execution execution;
  check(strobe_attention_init(&attention, sizeof attention), "init");
  check(strobe_execution_init(&execution, sizeof execution), "init");
  attention.q = in(q);
  attention.k = in(k);
  attention.v = in(v);
  attention.causal = 1;
  execution.device = STROBE_CUDA;
  execution.stream = stream;

  /* One workspace serves both passes, so it needs the larger of the two sizes. */
  size_t forward = 0, backward = 0;
  check(strobe_workspace_bytes(&attention, STROBE_PASS_FORWARD, &execution, &forward), "workspace");
  check(strobe_workspace_bytes(&attention, STROBE_PASS_BACKWARD, &execution, &backward), "workspace");
  execution.workspace_bytes = forward > backward ? forward : backward;
  if (execution.workspace_bytes > 0) cuda(cudaMalloc(&execution.workspace, execution.workspace_bytes), "cudaMalloc");

  const strobe_forward_outputs outputs = {.size = sizeof outputs, .o = out(o), .lse = lse};
  check(strobe_forward(&attention, &outputs, &execution), "forward");
  const strobe_backward_inputs inputs = {.size = sizeof inputs, .o = in(o), .lse = lse, .d_o = in(d_o)};
  const strobe_gradients gradients = {.size = sizeof gradients, .dq = out(dq), .dk = out(dk), .dv = out(dv)};
  check(strobe_backward(&attention, &inputs, &gradients, &execution), "backward");
  cuda(cudaMemcpyAsync(grad, dq, kBytes, cudaMemcpyDeviceToHost, stream), "copy");
  cuda(cudaStreamSynchronize(stream), "synchronize");
  printf("workspace %zu bytes, dq[0] %f, dq[last] %f\n", execution.workspace_bytes, grad[0], grad[COUNT - 1]);
  /* With a causal mask the first row has one key, whose probability is 1 for any score, so its dq is 0. */
  for (int c = 0; c < D; ++c) {
    if (fabsf(grad[c]) > 1e-5f) return 1;
  }
  return 0;
}
