// Attention as XLA FFI calls, forward and backward, on the CPU and on CUDA. jax.py registers them and passes contiguous
// tensors [B, S, H, D]. An absent input is an empty array.
#include <xla/ffi/api/ffi.h>

#include <optional>
#include <string>

#include "problem.h"

namespace ffi = xla::ffi;

namespace strobe_python {
namespace {

std::int32_t dtype_of(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32: return STROBE_FP32;
    case ffi::DataType::F16: return STROBE_FP16;
    case ffi::DataType::BF16: return STROBE_BF16;
    default: throw Refusal(STROBE_INVALID_ARGUMENT, "attention: an array is not float32, float16 or bfloat16");
  }
}

// Returns a dense array [B, S, H, D] as a view [B, H, S, D].
strobe_view view_of(const ffi::AnyBuffer& buffer) {
  const auto size = buffer.dimensions();
  if (size.size() != 4) throw Refusal(STROBE_INVALID_ARGUMENT, "attention: an array is not 4-D");
  return strobe_bshd(buffer.untyped_data(), dtype_of(buffer.element_type()), size[0], size[2], size[1], size[3]);
}

strobe_const_view input(const strobe_view& view) {
  strobe_const_view result{view.data, view.dtype, {}, {}};
  for (int i = 0; i < 4; ++i) {
    result.shape[i] = view.shape[i];
    result.stride[i] = view.stride[i];
  }
  return result;
}

// Returns a view of a dense bias [B or 1, H or 1, Sq or 1, Sk].
strobe_view bias_of(const ffi::AnyBuffer& buffer) {
  if (buffer.element_count() == 0) return {};
  const auto size = buffer.dimensions();
  if (size.size() != 4) throw Refusal(STROBE_INVALID_ARGUMENT, "attention: bias is not 4-D");
  return strobe_bhsd(buffer.untyped_data(), dtype_of(buffer.element_type()), size[0], size[1], size[2], size[3]);
}

strobe_index_view lengths_of(const ffi::AnyBuffer& buffer) {
  const auto count = static_cast<std::int64_t>(buffer.element_count());
  if (count == 0) return {};
  if (buffer.element_type() != ffi::DataType::S32) {
    throw Refusal(STROBE_INVALID_ARGUMENT, "attention: lengths are not int32");
  }
  return {buffer.untyped_data(), 32, count};
}

// Inputs and attributes that forward and backward share.
struct Given {
  ffi::AnyBuffer q, k, v, bias, lengths_q, lengths_k;
  double scale;
  std::int64_t causal, align, window_left, window_right;

  strobe_attention attention() const {
    return attention_of(
        {.q = input(view_of(q)),
         .k = input(view_of(k)),
         .v = input(view_of(v)),
         .bias = input(bias_of(bias)),
         .lengths_q = lengths_of(lengths_q),
         .lengths_k = lengths_of(lengths_k)},
        {.scale = scale, .causal = causal, .align = align, .window_left = window_left, .window_right = window_right});
  }
};

// Device of a call. On CUDA the stream is XLA's, and the workspace comes from its scratch allocator.
struct Place {
  void* stream = nullptr;
  ffi::ScratchAllocator* scratch = nullptr;  // null on the CPU

  strobe_execution execution(const strobe_attention& attention, std::int32_t pass) const {
    strobe_execution execution;
    check(strobe_execution_init(&execution, sizeof execution));
    if (!scratch) return execution;
    execution.device = STROBE_CUDA;
    execution.stream = stream;
    check(strobe_workspace_bytes(&attention, pass, &execution, &execution.workspace_bytes));
    if (execution.workspace_bytes == 0) return execution;
    // XLA refuses alignments above 16 bytes; CUDA kernels need 256.
    constexpr std::uintptr_t kAlignment = 256;
    const std::optional<void*> memory = scratch->Allocate(execution.workspace_bytes + kAlignment);
    if (!memory) throw Refusal(STROBE_OUT_OF_MEMORY, "attention: XLA has no memory for the workspace");
    const auto address = reinterpret_cast<std::uintptr_t>(*memory);
    execution.workspace = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
    return execution;
  }
};

ffi::Error error_of(const Refusal& refusal) {
  switch (refusal.status()) {
    case STROBE_INVALID_ARGUMENT: return ffi::Error(ffi::ErrorCode::kInvalidArgument, refusal.what());
    case STROBE_UNSUPPORTED: return ffi::Error(ffi::ErrorCode::kUnimplemented, refusal.what());
    case STROBE_OUT_OF_MEMORY: return ffi::Error(ffi::ErrorCode::kResourceExhausted, refusal.what());
    default: return ffi::Error(ffi::ErrorCode::kInternal, refusal.what());
  }
}

ffi::Error forward(const Given& given, const Place& place, ffi::AnyBuffer o, ffi::AnyBuffer lse) {
  try {
    const strobe_attention attention = given.attention();
    const strobe_execution execution = place.execution(attention, STROBE_PASS_FORWARD);
    const strobe_forward_outputs outputs = {
        .size = sizeof outputs, .o = view_of(o), .lse = static_cast<float*>(lse.untyped_data()), .lse_stride = {}};
    check(strobe_forward(&attention, &outputs, &execution));
    return ffi::Error::Success();
  } catch (const Refusal& refusal) {
    return error_of(refusal);
  }
}

struct Results {
  ffi::AnyBuffer dq, dk, dv, dbias;
};

// Inputs of the backward in addition to Given.
struct Saved {
  ffi::AnyBuffer d_o, o, lse;
};

ffi::Error backward(const Given& given, const Place& place, const Saved& saved, const Results& to) {
  try {
    const strobe_attention attention = given.attention();
    const strobe_execution execution = place.execution(attention, STROBE_PASS_BACKWARD);
    const strobe_backward_inputs inputs = {.size = sizeof inputs,
                                           .o = input(view_of(saved.o)),
                                           .lse = static_cast<const float*>(saved.lse.untyped_data()),
                                           .d_o = input(view_of(saved.d_o)),
                                           .lse_stride = {},
                                           .d_lse = nullptr,
                                           .d_lse_stride = {}};
    const strobe_gradients gradients = {.size = sizeof gradients,
                                        .dq = view_of(to.dq),
                                        .dk = view_of(to.dk),
                                        .dv = view_of(to.dv),
                                        .dbias = bias_of(to.dbias),
                                        .dsinks = nullptr};
    check(strobe_backward(&attention, &inputs, &gradients, &execution));
    return ffi::Error::Success();
  } catch (const Refusal& refusal) {
    return error_of(refusal);
  }
}

using Any = ffi::AnyBuffer;
using Out = ffi::Result<ffi::AnyBuffer>;

ffi::Error forward_cpu(Any q, Any k, Any v, Any bias, Any lengths_q, Any lengths_k, Out o, Out lse, double scale,
                       std::int64_t causal, std::int64_t align, std::int64_t left, std::int64_t right) {
  return forward({q, k, v, bias, lengths_q, lengths_k, scale, causal, align, left, right}, {}, *o, *lse);
}

ffi::Error forward_cuda(void* stream, ffi::ScratchAllocator scratch, Any q, Any k, Any v, Any bias, Any lengths_q,
                        Any lengths_k, Out o, Out lse, double scale, std::int64_t causal, std::int64_t align,
                        std::int64_t left, std::int64_t right) {
  return forward({q, k, v, bias, lengths_q, lengths_k, scale, causal, align, left, right}, {stream, &scratch}, *o,
                 *lse);
}

ffi::Error backward_cpu(Any d_o, Any o, Any lse, Any q, Any k, Any v, Any bias, Any lengths_q, Any lengths_k, Out dq,
                        Out dk, Out dv, Out dbias, double scale, std::int64_t causal, std::int64_t align,
                        std::int64_t left, std::int64_t right) {
  return backward({q, k, v, bias, lengths_q, lengths_k, scale, causal, align, left, right}, {}, {d_o, o, lse},
                  {*dq, *dk, *dv, *dbias});
}

ffi::Error backward_cuda(void* stream, ffi::ScratchAllocator scratch, Any d_o, Any o, Any lse, Any q, Any k, Any v,
                         Any bias, Any lengths_q, Any lengths_k, Out dq, Out dk, Out dv, Out dbias, double scale,
                         std::int64_t causal, std::int64_t align, std::int64_t left, std::int64_t right) {
  return backward({q, k, v, bias, lengths_q, lengths_k, scale, causal, align, left, right}, {stream, &scratch},
                  {d_o, o, lse}, {*dq, *dk, *dv, *dbias});
}

// Adds kArguments inputs, kResults outputs and the attributes to a binding.
template <int kArguments, int kResults, class Binding>
auto bind(Binding binding) {
  if constexpr (kArguments > 0) {
    return bind<kArguments - 1, kResults>(std::move(binding).template Arg<Any>());
  } else if constexpr (kResults > 0) {
    return bind<0, kResults - 1>(std::move(binding).template Ret<Any>());
  } else {
    return std::move(binding)
        .template Attr<double>("scale")
        .template Attr<std::int64_t>("causal")
        .template Attr<std::int64_t>("align")
        .template Attr<std::int64_t>("window_left")
        .template Attr<std::int64_t>("window_right");
  }
}

auto on_cuda() { return ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ctx<ffi::ScratchAllocator>(); }

}  // namespace
}  // namespace strobe_python

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(strobe_jax_forward_cpu, strobe_python::forward_cpu,
                              (strobe_python::bind<6, 2>(xla::ffi::Ffi::Bind())));
XLA_FFI_DEFINE_HANDLER_SYMBOL(strobe_jax_backward_cpu, strobe_python::backward_cpu,
                              (strobe_python::bind<9, 4>(xla::ffi::Ffi::Bind())));
XLA_FFI_DEFINE_HANDLER_SYMBOL(strobe_jax_forward_cuda, strobe_python::forward_cuda,
                              (strobe_python::bind<6, 2>(strobe_python::on_cuda())));
XLA_FFI_DEFINE_HANDLER_SYMBOL(strobe_jax_backward_cuda, strobe_python::backward_cuda,
                              (strobe_python::bind<9, 4>(strobe_python::on_cuda())));
#pragma GCC visibility pop
