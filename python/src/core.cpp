// The module strobe_attention._core: attention on host arrays that support the buffer protocol or DLPack, kernel names
// and the version. __init__.py checks types and calls it. Arrays are not copied, and the GIL is released while the
// library computes.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "problem.h"
#include "torch_direct.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace strobe_python {
namespace {

using Array = nb::ndarray<nb::ro>;
using OptionalArray = std::optional<Array>;

enum Layout { kBhsd, kBshd, kThd };

std::int32_t dtype_of(const char* name, const Array& array) {
  const nb::dlpack::dtype type = array.dtype();
  if (type.lanes == 1) {
    if (type == nb::dtype<float>()) return STROBE_FP32;
    if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) && type.bits == 16) return STROBE_FP16;
    if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) && type.bits == 16) return STROBE_BF16;
  }
  const std::string text = std::string("attention: ") + name + " is not float32, float16 or bfloat16";
  throw nb::type_error(text.c_str());
}

void check_host(const char* name, const Array& array) {
  if (array.device_type() == nb::device::cpu::value) return;
  const std::string text =
      std::string("attention: ") + name + " is not in host memory; strobe_attention.torch and .jax accept GPU arrays";
  throw nb::value_error(text.c_str());
}

// Returns a view [B, H, S, D] of an array in the given layout.
strobe_const_view view_of(const char* name, const Array& array, Layout layout) {
  check_host(name, array);
  const std::size_t rank = layout == kThd ? 3 : 4;
  if (array.ndim() != rank) {
    const std::string text = std::string("attention: ") + name + " has " + std::to_string(array.ndim()) +
                             " dimensions; valid: " + std::to_string(rank);
    throw nb::value_error(text.c_str());
  }
  static constexpr int kOrder[3][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {-1, 1, 0, 2}};
  strobe_const_view view{array.data(), dtype_of(name, array), {1, 1, 1, 1}, {0, 0, 0, 0}};
  for (int i = 0; i < 4; ++i) {
    const int from = kOrder[layout][i];
    if (from < 0) continue;
    view.shape[i] = static_cast<std::int64_t>(array.shape(static_cast<std::size_t>(from)));
    view.stride[i] = array.stride(static_cast<std::size_t>(from));
  }
  if (view.shape[3] == 1) view.stride[3] = 1;
  return view;
}

// Returns a view of a bias with up to four dimensions. Missing leading dimensions have size 1.
strobe_const_view bias_of(const OptionalArray& array) {
  strobe_const_view view{};
  if (!array) return view;
  check_host("bias", *array);
  if (array->ndim() > 4) throw nb::value_error("attention: bias has more than 4 dimensions");
  view.data = array->data();
  view.dtype = dtype_of("bias", *array);
  const std::size_t missing = 4 - array->ndim();
  for (std::size_t i = 0; i < 4; ++i) {
    view.shape[i] = i < missing ? 1 : static_cast<std::int64_t>(array->shape(i - missing));
    view.stride[i] = i < missing ? 0 : array->stride(i - missing);
  }
  return view;
}

// Returns a view of a boolean mask with up to four dimensions. Missing leading dimensions have size 1.
strobe_mask_view mask_of(const OptionalArray& array) {
  strobe_mask_view view{};
  if (!array) return view;
  check_host("mask", *array);
  if (array->dtype() != nb::dtype<bool>()) throw nb::type_error("attention: mask is not boolean");
  if (array->ndim() > 4) throw nb::value_error("attention: mask has more than 4 dimensions");
  view.data = array->data();
  const std::size_t missing = 4 - array->ndim();
  for (std::size_t i = 0; i < 4; ++i) {
    view.shape[i] = i < missing ? 1 : static_cast<std::int64_t>(array->shape(i - missing));
    view.stride[i] = i < missing ? 0 : array->stride(i - missing);
  }
  return view;
}

const float* floats_of(const char* name, const OptionalArray& array, std::int64_t heads) {
  if (!array) return nullptr;
  check_host(name, *array);
  const bool dense = array->ndim() == 1 && (array->shape(0) <= 1 || array->stride(0) == 1);
  if (array->dtype() != nb::dtype<float>() || !dense || static_cast<std::int64_t>(array->shape(0)) != heads) {
    const std::string text =
        std::string("attention: ") + name + " is not a contiguous float32 array of " + std::to_string(heads) + " heads";
    throw nb::value_error(text.c_str());
  }
  return static_cast<const float*>(array->data());
}

strobe_index_view indices_of(const char* name, const OptionalArray& array) {
  if (!array) return {};
  check_host(name, *array);
  const bool wide = array->dtype() == nb::dtype<std::int64_t>();
  if ((!wide && array->dtype() != nb::dtype<std::int32_t>()) || array->ndim() != 1 ||
      (array->shape(0) > 1 && array->stride(0) != 1)) {
    const std::string text = std::string("attention: ") + name + " is not a contiguous array of int32 or int64";
    throw nb::value_error(text.c_str());
  }
  return {array->data(), wide ? 64 : 32, static_cast<std::int64_t>(array->shape(0))};
}

// The arguments of attention() and explain(). Has pointers into the arrays, which the caller must keep alive.
class Call {
 public:
  Call(const Array& q, const Array& k, const Array& v, int layout_index, const OptionalArray& bias,
       const OptionalArray& mask, const OptionalArray& sinks, const OptionalArray& alibi_slopes,
       const OptionalArray& lengths_q, const OptionalArray& lengths_k, const OptionalArray& cu_seqlens_q,
       const OptionalArray& cu_seqlens_k, double scale, double softcap, double dropout_p, std::uint64_t seed,
       bool causal, int align, std::int64_t window_left, std::int64_t window_right, std::int64_t max_seqlen_q,
       std::int64_t max_seqlen_k, std::string kernel_name, bool batch_invariant)
      : layout(static_cast<Layout>(layout_index)), kernel(std::move(kernel_name)) {
    const strobe_const_view q_view = view_of("q", q, layout);
    attention = attention_of({.q = q_view,
                              .k = view_of("k", k, layout),
                              .v = view_of("v", v, layout),
                              .bias = bias_of(bias),
                              .mask = mask_of(mask),
                              .sinks = floats_of("sinks", sinks, q_view.shape[1]),
                              .alibi_slopes = floats_of("alibi_slopes", alibi_slopes, q_view.shape[1]),
                              .lengths_q = indices_of("lengths_q", lengths_q),
                              .lengths_k = indices_of("lengths_k", lengths_k),
                              .cu_seqlens_q = indices_of("cu_seqlens_q", cu_seqlens_q),
                              .cu_seqlens_k = indices_of("cu_seqlens_k", cu_seqlens_k)},
                             {.scale = scale,
                              .softcap = softcap,
                              .dropout_p = dropout_p,
                              .seed = seed,
                              .causal = causal,
                              .align = align,
                              .window_left = window_left,
                              .window_right = window_right,
                              .max_seqlen_q = max_seqlen_q,
                              .max_seqlen_k = max_seqlen_k});
    check(strobe_execution_init(&execution, sizeof execution));
    execution.kernel = kernel.c_str();
    execution.batch_invariant = batch_invariant;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  strobe_attention attention;
  strobe_execution execution;
  Layout layout;

 private:
  std::string kernel;
};

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Freed>;

Memory new_memory(std::int64_t elements, std::int64_t element_bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t bytes = static_cast<std::size_t>(elements) * static_cast<std::size_t>(element_bytes);
  void* const memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (!memory) throw std::bad_alloc();
  return Memory(memory);
}

nb::capsule owner_of(Memory memory) {
  return nb::capsule(memory.release(), [](void* data) noexcept { std::free(data); });
}

// Wraps memory as a NumPy array, or as an array that DLPack consumers accept.
nb::object wrap(Memory memory, std::int32_t dtype, const std::vector<std::size_t>& shape,
                const std::vector<std::int64_t>& stride, bool numpy) {
  const nb::dlpack::dtype types[] = {nb::dtype<float>(),
                                     {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1},
                                     {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1}};
  void* const data = memory.get();
  const nb::capsule owner = owner_of(std::move(memory));
  if (numpy) {
    return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, stride.data(), types[dtype]));
  }
  return nb::cast(nb::ndarray<>(data, shape.size(), shape.data(), owner, stride.data(), types[dtype]));
}

// Wraps O as an array in the layout and memory order of q.
nb::object wrap_o(Memory memory, const strobe_view& o, Layout layout, bool numpy) {
  static constexpr int kOrder[3][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {2, 1, 3, -1}};
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> stride;
  for (const int from : kOrder[layout]) {
    if (from < 0) continue;
    shape.push_back(static_cast<std::size_t>(o.shape[from]));
    stride.push_back(o.stride[from]);
  }
  return wrap(std::move(memory), o.dtype, shape, stride, numpy);
}

nb::object forward(const Call& call, bool return_lse, bool numpy) {
  const strobe_attention& attention = call.attention;
  strobe_view o{nullptr, attention.q.dtype, {}, {}};
  std::int64_t elements = 1;
  for (int i = 0; i < 4; ++i) {
    o.shape[i] = i == 3 ? attention.v.shape[3] : attention.q.shape[i];
    elements *= o.shape[i];
  }
  strides_like(attention.q, o.shape, o.stride);
  Memory o_memory = new_memory(elements, attention.q.dtype == STROBE_FP32 ? 4 : 2);
  o.data = o_memory.get();
  Memory lse;
  if (return_lse) lse = new_memory(o.shape[0] * o.shape[1] * o.shape[2], 4);
  const strobe_forward_outputs outputs = {
      .size = sizeof outputs, .o = o, .lse = static_cast<float*>(lse.get()), .lse_stride = {}};
  {
    const nb::gil_scoped_release released;
    check(strobe_forward(&attention, &outputs, &call.execution));
  }
  nb::object result = wrap_o(std::move(o_memory), o, call.layout, numpy);
  if (!return_lse) return result;
  const auto size = [&](int i) { return static_cast<std::size_t>(o.shape[i]); };
  if (call.layout == kThd) {
    return nb::make_tuple(result, wrap(std::move(lse), STROBE_FP32, {size(1), size(2)}, {o.shape[2], 1}, numpy));
  }
  return nb::make_tuple(result, wrap(std::move(lse), STROBE_FP32, {size(0), size(1), size(2)},
                                     {o.shape[1] * o.shape[2], o.shape[2], 1}, numpy));
}

// A NumPy array [B, H, S, D] through the buffer protocol, which costs less time than DLPack.
class NumpyArray {
 public:
  NumpyArray(nb::handle array, int flags) {
    is_open_ = PyObject_GetBuffer(array.ptr(), &buffer_, flags | PyBUF_STRIDES | PyBUF_FORMAT) == 0;
    if (!is_open_) PyErr_Clear();  // for example a dtype that the protocol does not have
  }
  ~NumpyArray() {
    if (is_open_) PyBuffer_Release(&buffer_);
  }
  NumpyArray(const NumpyArray&) = delete;
  NumpyArray& operator=(const NumpyArray&) = delete;

  // Returns false if the array is not fp32 or fp16 with four dimensions and a contiguous last one.
  template <class View>
  bool get(View& view) const {
    if (!is_open_) return false;
    const char* const format = buffer_.format;
    if (buffer_.ndim != 4 || !format || (format[0] != 'f' && format[0] != 'e') || format[1] != 0) return false;
    view.data = buffer_.buf;
    view.dtype = format[0] == 'f' ? STROBE_FP32 : STROBE_FP16;
    for (int i = 0; i < 4; ++i) {
      if (buffer_.strides[i] % buffer_.itemsize != 0) return false;
      view.shape[i] = buffer_.shape[i];
      view.stride[i] = buffer_.strides[i] / buffer_.itemsize;
    }
    return view.stride[3] == 1;
  }

 private:
  Py_buffer buffer_{};
  bool is_open_ = false;
};

// Computes O of NumPy arrays in the layout "bhsd", without optional arrays, into the array `o`. Returns false and
// computes nothing if Call must check the arrays.
bool forward_into(nb::handle o, nb::handle q, nb::handle k, nb::handle v, double scale, double softcap, bool causal,
                  int align, std::int64_t left, std::int64_t right, const char* kernel, bool batch_invariant) {
  const NumpyArray o_array(o, PyBUF_WRITABLE), q_array(q, 0), k_array(k, 0), v_array(v, 0);
  strobe_forward_outputs outputs{};
  outputs.size = sizeof outputs;
  Inputs inputs;
  if (!o_array.get(outputs.o) || !q_array.get(inputs.q) || !k_array.get(inputs.k) || !v_array.get(inputs.v))
    return false;
  if (inputs.v.shape[3] != outputs.o.shape[3]) return false;
  const strobe_attention attention = attention_of(inputs, {.scale = scale,
                                                           .softcap = softcap,
                                                           .causal = causal,
                                                           .align = align,
                                                           .window_left = left,
                                                           .window_right = right});
  strobe_execution execution;
  check(strobe_execution_init(&execution, sizeof execution));
  execution.kernel = kernel;
  execution.batch_invariant = batch_invariant;
  const nb::gil_scoped_release released;
  check(strobe_forward(&attention, &outputs, &execution));
  return true;
}

// Explains the choice for a device. Only shapes and options count, so host arrays also describe a problem on CUDA.
std::string explain(const Call& call, int pass, int device) {
  strobe_execution execution = call.execution;
  execution.device = device;
  std::size_t needed = 0;
  check(strobe_explain(&call.attention, pass, &execution, nullptr, 0, &needed));
  std::string text(needed, '\0');
  check(strobe_explain(&call.attention, pass, &execution, text.data(), needed, nullptr));
  text.resize(needed - 1);
  return text;
}

std::string kernel_names(int device) {
  std::size_t needed = 0;
  check(strobe_kernel_names(device, nullptr, 0, &needed));
  std::string text(needed, '\0');
  check(strobe_kernel_names(device, text.data(), needed, nullptr));
  text.resize(needed - 1);
  return text;
}

// Computes attention on PyTorch's tensors without its dispatcher. Boxing and dispatching the operator's
// arguments takes longer than a small problem.
class TorchCalls {
 public:
  // `kernel` is the address of strobe_torch_direct; `to_handle` and `from_handle` convert between a tensor and a
  // capsule with an AtenTensorHandle.
  TorchCalls(std::uintptr_t kernel, nb::object to_handle, nb::object from_handle)
      : kernel_(reinterpret_cast<DirectKernel>(kernel)),
        to_handle_(std::move(to_handle)),
        from_handle_(std::move(from_handle)) {}

  // Returns (o, lse), with lse None unless wanted. Returns None if the operators' checks must handle the call.
  nb::object forward(nb::handle q, nb::handle k, nb::handle v, bool wants_lse, double scale, double softcap,
                     std::int64_t causal, std::int64_t align, std::int64_t left, std::int64_t right, const char* name,
                     bool deterministic, bool batch_invariant) const {
    DirectCall call = {.scale = scale,
                       .softcap = softcap,
                       .causal = causal,
                       .align = align,
                       .window_left = left,
                       .window_right = right,
                       .kernel = name,
                       .deterministic = deterministic,
                       .batch_invariant = batch_invariant,
                       .wants_lse = wants_lse};
    return compute(call, {{q, &call.q}, {k, &call.k}, {v, &call.v}}, 2);
  }

  // Returns (dq, dk, dv), or None like forward().
  nb::object backward(nb::handle d_o, nb::handle o, nb::handle lse, nb::handle q, nb::handle k, nb::handle v,
                      double scale, double softcap, std::int64_t causal, std::int64_t align, std::int64_t left,
                      std::int64_t right, const char* name, bool deterministic, bool batch_invariant) const {
    DirectCall call = {.scale = scale,
                       .softcap = softcap,
                       .causal = causal,
                       .align = align,
                       .window_left = left,
                       .window_right = right,
                       .kernel = name,
                       .deterministic = deterministic,
                       .batch_invariant = batch_invariant};
    return compute(call, {{q, &call.q}, {k, &call.k}, {v, &call.v}, {d_o, &call.d_o}, {o, &call.o}, {lse, &call.lse}},
                   3);
  }

 private:
  struct Input {
    nb::handle tensor;
    void** handle;
  };

  nb::object compute(DirectCall& call, std::initializer_list<Input> inputs, int count) const {
    for (const Input& one : inputs) *one.handle = PyCapsule_GetPointer(to_handle_(one.tensor).ptr(), nullptr);
    const char* message = "";
    int status = STROBE_OK;
    {
      const nb::gil_scoped_release released;
      status = kernel_(&call, &message);
    }
    if (status != STROBE_OK) throw Refusal(static_cast<strobe_status>(status), message);
    if (!call.results[0]) return nb::none();
    if (count == 2) return nb::make_tuple(tensor(call.results[0]), tensor(call.results[1]));
    return nb::make_tuple(tensor(call.results[0]), tensor(call.results[1]), tensor(call.results[2]));
  }

  nb::object tensor(void* handle) const {
    if (!handle) return nb::none();
    return from_handle_(nb::capsule(handle));
  }

  DirectKernel kernel_;
  nb::object to_handle_, from_handle_;
};

// Translates errors: invalid input to ValueError, unsupported input to NotImplementedError, out of memory to
// MemoryError, any other error to RuntimeError.
void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Refusal& refusal) {
    switch (refusal.status()) {
      case STROBE_INVALID_ARGUMENT: PyErr_SetString(PyExc_ValueError, refusal.what()); break;
      case STROBE_UNSUPPORTED: PyErr_SetString(PyExc_NotImplementedError, refusal.what()); break;
      case STROBE_OUT_OF_MEMORY: PyErr_SetString(PyExc_MemoryError, refusal.what()); break;
      default: PyErr_SetString(PyExc_RuntimeError, refusal.what());
    }
  }
}

}  // namespace
}  // namespace strobe_python

NB_MODULE(_core, module) {
  using namespace strobe_python;
  nb::set_leak_warnings(false);  // types of a module live until the process ends, which nanobind would report as leaks
  nb::register_exception_translator(translate);
  using MaybeArray = const OptionalArray&;
  nb::class_<Call>(module, "Call")
      .def(nb::init<const Array&, const Array&, const Array&, int, MaybeArray, MaybeArray, MaybeArray, MaybeArray,
                    MaybeArray, MaybeArray, MaybeArray, MaybeArray, double, double, double, std::uint64_t, bool, int,
                    std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::string, bool>(),
           "q"_a.noconvert(), "k"_a.noconvert(), "v"_a.noconvert(), "layout"_a, "bias"_a.none(), "mask"_a.none(),
           "sinks"_a.none(), "alibi_slopes"_a.none(), "lengths_q"_a.none(), "lengths_k"_a.none(),
           "cu_seqlens_q"_a.none(), "cu_seqlens_k"_a.none(), "scale"_a, "softcap"_a, "dropout_p"_a, "seed"_a,
           "causal"_a, "align"_a, "window_left"_a, "window_right"_a, "max_seqlen_q"_a, "max_seqlen_k"_a, "kernel"_a,
           "batch_invariant"_a)
      .def("forward", &forward, "return_lse"_a, "numpy"_a)
      .def("explain", &explain, "pass_index"_a, "device"_a);
  nb::class_<TorchCalls>(module, "TorchCalls")
      .def(nb::init<std::uintptr_t, nb::object, nb::object>())
      .def("forward", &TorchCalls::forward)
      .def("backward", &TorchCalls::backward);
  module.def("forward_into", &forward_into);
  module.def("version", &strobe_version);
  module.def("kernel_names", &kernel_names, "device"_a);
}
