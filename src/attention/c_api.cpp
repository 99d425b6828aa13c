// Implements the C ABI (include/strobe/strobe.h) on the C++ API. Converts structs field by field, and exceptions to a
// status and a message.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "attention/c_struct.h"
#include "core/fail.h"
#include "strobe/attention.h"
#include "strobe/strobe.h"

namespace strobe {

namespace {

static_assert(static_cast<int>(ErrorCode::invalid_argument) == STROBE_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::unsupported) == STROBE_UNSUPPORTED);
static_assert(static_cast<int>(ErrorCode::out_of_memory) == STROBE_OUT_OF_MEMORY);
static_assert(static_cast<int>(ErrorCode::runtime) == STROBE_RUNTIME);
static_assert(static_cast<int>(DType::fp16) == STROBE_FP16 && static_cast<int>(DType::bf16) == STROBE_BF16);
static_assert(static_cast<int>(Alignment::top_left) == STROBE_TOP_LEFT &&
              static_cast<int>(Alignment::bottom_right) == STROBE_BOTTOM_RIGHT);
static_assert(static_cast<int>(Pass::backward) == STROBE_PASS_BACKWARD &&
              static_cast<int>(Device::cuda) == STROBE_CUDA);

// A fixed buffer, so that reporting an out-of-memory error needs no allocation.
thread_local char last_error[1024] = "";

void remember(std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), sizeof last_error - 1);
  std::memcpy(last_error, text.data(), length);
  last_error[length] = '\0';
}

// Runs a call and converts exceptions to a status.
template <class F>
strobe_status guarded(F&& call) noexcept {
  try {
    call();
    return STROBE_OK;
  } catch (const Error& error) {
    remember(error.what());
    return static_cast<strobe_status>(error.code());
  } catch (const std::bad_alloc&) {
    remember("attention: out of host memory");
    return STROBE_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    remember(error.what());
    return STROBE_RUNTIME;
  } catch (...) {
    remember("attention: unknown exception");
    return STROBE_RUNTIME;
  }
}

// Sizes of the structs in version 1 of the ABI, on the 64-bit systems that Strobe supports. These numbers never change.
// New fields are appended, so callers compiled against an older version keep working.
constexpr StructAge kAttention{"strobe_attention", 504};
constexpr StructAge kForwardOutputs{"strobe_forward_outputs", 96};
constexpr StructAge kBackwardInputs{"strobe_backward_inputs", 176};
constexpr StructAge kGradients{"strobe_gradients", 336};
constexpr StructAge kExecution{"strobe_execution", 56};

// The last field of version 1 must end where version 1 ends, and earlier fields must keep their offsets.
#define STROBE_ENDS_AT(type, field, end) (offsetof(type, field) + sizeof(type::field) == (end))
static_assert(sizeof(void*) == 8 && sizeof(std::size_t) == 8, "the sizes of version 1 are for 64-bit systems");
static_assert(sizeof(strobe_view) == 80 && sizeof(strobe_const_view) == 80 && sizeof(strobe_index_view) == 24);
static_assert(STROBE_ENDS_AT(strobe_attention, max_seqlen_k, kAttention.oldest));
static_assert(offsetof(strobe_attention, q) == 8 && offsetof(strobe_attention, scale_given) == 248 &&
              offsetof(strobe_attention, scale) == 252 && offsetof(strobe_attention, causal) == 256 &&
              offsetof(strobe_attention, alignment) == 260 && offsetof(strobe_attention, window_left) == 264 &&
              offsetof(strobe_attention, window_right) == 272 && offsetof(strobe_attention, alibi_slopes) == 280 &&
              offsetof(strobe_attention, bias) == 288 && offsetof(strobe_attention, sinks) == 368 &&
              offsetof(strobe_attention, softcap) == 376 && offsetof(strobe_attention, dropout_p) == 380 &&
              offsetof(strobe_attention, dropout_seed) == 384 && offsetof(strobe_attention, lengths_q) == 392 &&
              offsetof(strobe_attention, lengths_k) == 416 && offsetof(strobe_attention, cu_seqlens_q) == 440 &&
              offsetof(strobe_attention, cu_seqlens_k) == 464 && offsetof(strobe_attention, max_seqlen_q) == 488);
static_assert(offsetof(strobe_attention, mask) == kAttention.oldest &&
              offsetof(strobe_attention, alibi_batch_stride) == 576 && offsetof(strobe_attention, first_keys) == 584 &&
              offsetof(strobe_attention, dropout_seed_data) == 608);
static_assert(STROBE_ENDS_AT(strobe_forward_outputs, lse, kForwardOutputs.oldest));
static_assert(STROBE_ENDS_AT(strobe_backward_inputs, d_o, kBackwardInputs.oldest));
static_assert(offsetof(strobe_backward_inputs, lse) == 88);
static_assert(offsetof(strobe_forward_outputs, lse_stride) == kForwardOutputs.oldest &&
              offsetof(strobe_backward_inputs, lse_stride) == kBackwardInputs.oldest &&
              offsetof(strobe_backward_inputs, d_lse) == 200 && offsetof(strobe_backward_inputs, d_lse_stride) == 208);
static_assert(STROBE_ENDS_AT(strobe_gradients, dsinks, kGradients.oldest));
static_assert(STROBE_ENDS_AT(strobe_execution, workspace_bytes, kExecution.oldest));
static_assert(offsetof(strobe_execution, device) == 8 && offsetof(strobe_execution, threads) == 12 &&
              offsetof(strobe_execution, deterministic) == 16 && offsetof(strobe_execution, tf32) == 20 &&
              offsetof(strobe_execution, kernel) == 24 && offsetof(strobe_execution, stream) == 32 &&
              offsetof(strobe_execution, workspace) == 40 &&
              offsetof(strobe_execution, batch_invariant) == kExecution.oldest &&
              offsetof(strobe_execution, executor) == 64 && offsetof(strobe_execution, allocator) == 80);
#undef STROBE_ENDS_AT

template <class Result, class From>
Result view_from(const From& from) {
  Result view;
  view.data = from.data;
  view.dtype = static_cast<DType>(from.dtype);
  std::copy_n(from.shape, 4, view.shape.begin());
  std::copy_n(from.stride, 4, view.stride.begin());
  return view;
}

ConstView input(const strobe_const_view& from) { return view_from<ConstView>(from); }
View output(const strobe_view& from) { return view_from<View>(from); }

MaskView mask(const strobe_mask_view& from) {
  MaskView view{.data = from.data};
  std::copy_n(from.shape, 4, view.shape.begin());
  std::copy_n(from.stride, 4, view.stride.begin());
  return view;
}

std::array<std::int64_t, 3> lse_strides(const int64_t (&from)[3]) { return {from[0], from[1], from[2]}; }

IndexView indices(const strobe_index_view& from) { return {from.data, from.bits, from.count}; }

Attention attention_from(const strobe_attention* given) {
  const auto from = read_struct(given, kAttention);
  Attention attention;
  attention.q = input(from.q);
  attention.k = input(from.k);
  attention.v = input(from.v);
  if (from.scale_given) attention.scale = from.scale;
  attention.causal = from.causal != 0;
  attention.window = {from.window_left, from.window_right};
  attention.alignment = static_cast<Alignment>(from.alignment);
  attention.softcap = from.softcap;
  attention.alibi_slopes = from.alibi_slopes;
  attention.bias = input(from.bias);
  attention.sinks = from.sinks;
  attention.dropout = {from.dropout_p, from.dropout_seed, from.dropout_seed_data};
  attention.lengths_q = indices(from.lengths_q);
  attention.lengths_k = indices(from.lengths_k);
  attention.cu_seqlens_q = indices(from.cu_seqlens_q);
  attention.cu_seqlens_k = indices(from.cu_seqlens_k);
  attention.max_seqlen_q = from.max_seqlen_q;
  attention.max_seqlen_k = from.max_seqlen_k;
  attention.mask = mask(from.mask);
  attention.alibi_batch_stride = from.alibi_batch_stride;
  attention.first_keys = indices(from.first_keys);
  return attention;
}

// The result refers to the caller's kernel name, which must stay valid during the call.
Execution execution_from(const strobe_execution* given) {
  Execution execution;
  if (!given) return execution;
  const auto from = read_struct(given, kExecution);
  execution.device = static_cast<Device>(from.device);
  execution.kernel = from.kernel ? std::string_view(from.kernel) : std::string_view();
  execution.threads = from.threads;
  execution.deterministic = from.deterministic != 0;
  execution.tf32 = from.tf32 != 0;
  execution.stream = from.stream;
  execution.workspace = from.workspace;
  execution.workspace_bytes = from.workspace_bytes;
  execution.batch_invariant = from.batch_invariant != 0;
  execution.executor = {from.executor.run, from.executor.context};
  execution.allocator = {from.allocator.allocate, from.allocator.deallocate, from.allocator.context};
  return execution;
}

std::string text_of(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& verdict : verdicts) {
    if (verdict.refusal.empty()) {
      text += fmt::format("{}: {}, workspace {} bytes, {}\n", verdict.kernel, verdict.chosen ? "chosen" : "supported",
                          verdict.workspace_bytes, verdict.configuration);
    } else {
      text += fmt::format("{}: refused, {}\n", verdict.kernel, verdict.refusal);
    }
  }
  return text;
}

// Copies text to a caller's buffer, cut off at its capacity. Sets *needed to the bytes of the whole text and its
// terminator, unless `needed` is null.
void copy_text(const std::string& text, char* buffer, std::size_t capacity, std::size_t* needed) {
  if (needed) *needed = text.size() + 1;
  if (capacity == 0) return;
  const std::size_t length = std::min(text.size(), capacity - 1);
  std::memcpy(buffer, text.data(), length);
  buffer[length] = '\0';
}

void check_buffer(const char* buffer, std::size_t capacity) {
  if (buffer || capacity == 0) return;
  fail(ErrorCode::invalid_argument, "attention: the buffer for text is null but its capacity is {}", capacity);
}

}  // namespace

}  // namespace strobe

using namespace strobe;

extern "C" {

strobe_status strobe_attention_init(strobe_attention* attention, size_t size) {
  return guarded([&] {
    clear_struct(attention, size, kAttention);
    attention->window_left = -1;
    attention->window_right = -1;
  });
}

strobe_status strobe_execution_init(strobe_execution* execution, size_t size) {
  return guarded([&] {
    clear_struct(execution, size, kExecution);
    execution->deterministic = 1;
  });
}

strobe_status strobe_forward(const strobe_attention* attention, const strobe_forward_outputs* outputs,
                             const strobe_execution* execution) {
  return guarded([&] {
    const Attention what = attention_from(attention);
    const auto to = read_struct(outputs, kForwardOutputs);
    forward(what, {.o = output(to.o), .lse = to.lse, .lse_stride = lse_strides(to.lse_stride)},
            execution_from(execution));
  });
}

strobe_status strobe_backward(const strobe_attention* attention, const strobe_backward_inputs* inputs,
                              const strobe_gradients* gradients, const strobe_execution* execution) {
  return guarded([&] {
    const Attention what = attention_from(attention);
    const auto from = read_struct(inputs, kBackwardInputs);
    const auto to = read_struct(gradients, kGradients);
    backward(
        what,
        {.o = input(from.o),
         .lse = from.lse,
         .d_o = input(from.d_o),
         .lse_stride = lse_strides(from.lse_stride),
         .d_lse = from.d_lse,
         .d_lse_stride = lse_strides(from.d_lse_stride)},
        {.dq = output(to.dq), .dk = output(to.dk), .dv = output(to.dv), .dbias = output(to.dbias), .dsinks = to.dsinks},
        execution_from(execution));
  });
}

strobe_status strobe_workspace_bytes(const strobe_attention* attention, int32_t pass, const strobe_execution* execution,
                                     size_t* bytes) {
  return guarded([&] {
    if (!bytes) fail(ErrorCode::invalid_argument, "attention: the pointer for workspace bytes is null");
    *bytes = workspace_bytes(attention_from(attention), static_cast<Pass>(pass), execution_from(execution));
  });
}

strobe_status strobe_explain(const strobe_attention* attention, int32_t pass, const strobe_execution* execution,
                             char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    check_buffer(buffer, capacity);
    copy_text(text_of(explain(attention_from(attention), static_cast<Pass>(pass), execution_from(execution))), buffer,
              capacity, needed);
  });
}

strobe_status strobe_kernel_names(int32_t device, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    check_buffer(buffer, capacity);
    if (device != STROBE_CPU && device != STROBE_CUDA) {
      fail(ErrorCode::invalid_argument, "attention: device is {}; valid: {} (CPU), {} (CUDA)", device,
           static_cast<int>(STROBE_CPU), static_cast<int>(STROBE_CUDA));
    }
    std::string text;
    for (const std::string& name : kernel_names(static_cast<Device>(device))) text += name + '\n';
    copy_text(text, buffer, capacity, needed);
  });
}

const char* strobe_last_error(void) { return last_error; }

const char* strobe_status_name(strobe_status status) {
  switch (status) {
    case STROBE_OK: return "ok";
    case STROBE_INVALID_ARGUMENT: return "invalid_argument";
    case STROBE_UNSUPPORTED: return "unsupported";
    case STROBE_OUT_OF_MEMORY: return "out_of_memory";
    case STROBE_RUNTIME: return "runtime";
  }
  return "unknown";
}

const char* strobe_version(void) { return STROBE_VERSION_STRING; }

int32_t strobe_abi_version(void) { return STROBE_ABI_VERSION; }

}  // extern "C"
