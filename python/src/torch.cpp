// Registers the operators strobe::forward and strobe::backward through LibTorch's stable ABI. torch.py checks ranks and
// dtypes before it calls them. Operators are boxed: they take and return a stack of 64-bit values.
#include "torch_api.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "problem.h"
#include "torch_direct.h"

namespace strobe_python {
namespace {

thread_local int last_status = 0;  // status of the thread's last failed call; determines the exception of _torch_ops.py

// Owns a tensor handle; null if the tensor is absent.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Handle handle) : handle_(handle) {}
  Tensor(Tensor&& other) noexcept : handle_(other.take()) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Tensor() {
    if (handle_) TorchApi::get().release(handle_);
  }

  explicit operator bool() const { return handle_ != nullptr; }
  Handle get() const { return handle_; }
  Handle take() {
    const Handle handle = handle_;
    handle_ = nullptr;
    return handle;
  }

  template <class T>
  T ask(TorchApi::Getter<T>* getter) const {
    T value{};
    check_torch(getter(handle_, &value));
    return value;
  }
  void* data() const { return ask(TorchApi::get().data); }
  const std::int64_t* sizes() const { return ask(TorchApi::get().sizes); }

 private:
  Handle handle_ = nullptr;
};

std::int32_t dtype_of(const Tensor& tensor) {
  const TorchApi& api = TorchApi::get();
  const std::int32_t dtype = tensor.ask(api.dtype);
  if (dtype == api.fp32) return STROBE_FP32;
  if (dtype == api.fp16) return STROBE_FP16;
  if (dtype == api.bf16) return STROBE_BF16;
  throw Refusal(STROBE_INVALID_ARGUMENT, "attention: a tensor's dtype is not float32, float16 or bfloat16");
}

// Returns a view of a 4-D tensor. If the last dimension has size 1, sets its stride to 1, because PyTorch leaves it
// arbitrary.
template <class View>
View view_of(const Tensor& tensor) {
  View view{};
  if (!tensor) return view;
  if (tensor.ask(TorchApi::get().dim) != 4) throw Refusal(STROBE_INVALID_ARGUMENT, "attention: a tensor is not 4-D");
  const std::int64_t* const sizes = tensor.sizes();
  const std::int64_t* const strides = tensor.ask(TorchApi::get().strides);
  view.data = tensor.data();
  view.dtype = dtype_of(tensor);
  for (int i = 3; i >= 0; --i) {
    view.shape[i] = sizes[i];
    view.stride[i] = strides[i];
  }
  if (view.shape[3] == 1) view.stride[3] = 1;
  return view;
}

strobe_mask_view mask_of(const Tensor& tensor) {
  strobe_mask_view view{};
  if (!tensor) return view;
  if (tensor.ask(TorchApi::get().dim) != 4) throw Refusal(STROBE_INVALID_ARGUMENT, "attention: mask is not 4-D");
  view.data = tensor.data();
  const std::int64_t* const strides = tensor.ask(TorchApi::get().strides);
  std::copy_n(tensor.sizes(), 4, view.shape);
  std::copy_n(strides, 4, view.stride);
  return view;
}

[[noreturn]] void refuse(const char* name, const std::string& text) {
  throw Refusal(STROBE_INVALID_ARGUMENT, ("attention: " + std::string(name) + " " + text).c_str());
}

strobe_index_view indices_of(const char* name, const Tensor& tensor) {
  if (!tensor) return {};
  const TorchApi& api = TorchApi::get();
  const std::int32_t dtype = tensor.ask(api.dtype);
  if (dtype != api.int32 && dtype != api.int64) refuse(name, "is not int32 or int64");
  const std::int64_t count = tensor.ask(api.numel);
  if (tensor.ask(api.dim) != 1 || (count > 1 && tensor.ask(api.strides)[0] != 1)) {
    refuse(name, "is not a contiguous 1-D tensor");
  }
  return {tensor.data(), dtype == api.int64 ? 64 : 32, count};
}

// Returns the data of a tensor [heads]. If `batch_stride` is not null, also accepts [batch, heads].
const float* per_head(const char* name, const Tensor& tensor, std::int64_t heads, std::int64_t batch = 0,
                      std::int64_t* batch_stride = nullptr) {
  if (!tensor) return nullptr;
  const TorchApi& api = TorchApi::get();
  const std::int64_t dim = tensor.ask(api.dim);
  const std::int64_t* const sizes = tensor.sizes();
  const std::int64_t* const strides = tensor.ask(api.strides);
  const bool batched = batch_stride && dim == 2;
  if ((dim != 1 && !batched) || sizes[dim - 1] != heads || (batched && sizes[0] != batch)) {
    const std::string row = "[" + std::to_string(heads) + "]";
    refuse(name, "has a wrong shape; valid: " + row +
                     (batch_stride ? " or [" + std::to_string(batch) + ", " + std::to_string(heads) + "]" : ""));
  }
  if (heads > 1 && strides[dim - 1] != 1) refuse(name, "is not contiguous in its last dimension");
  if (batched) *batch_stride = batch > 1 ? strides[0] : 0;
  return static_cast<const float*>(tensor.data());
}

const float* floats_of(const Tensor& tensor) { return tensor ? static_cast<const float*>(tensor.data()) : nullptr; }

struct Place {
  std::int32_t type, index;
};

Place place_of(const Tensor& tensor) {
  return {tensor.ask(TorchApi::get().device_type), tensor.ask(TorchApi::get().device_index)};
}

Tensor new_tensor(const Place& place, std::int32_t dtype, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& stride) {
  Handle handle = nullptr;
  check_torch(TorchApi::get().empty_strided(static_cast<std::int64_t>(shape.size()), shape.data(), stride.data(), dtype,
                                            place.type, place.index, &handle));
  return Tensor(handle);
}

// Allocates a tensor with the dtype and device of `owner`, and the shape and memory order of `like`, but with size
// `last` in the last dimension.
Tensor new_like(const Tensor& owner, const strobe_const_view& like, std::int64_t last) {
  const std::int64_t shape[4] = {like.shape[0], like.shape[1], like.shape[2], last};
  std::int64_t stride[4];
  strides_like(like, shape, stride);
  return new_tensor(place_of(owner), owner.ask(TorchApi::get().dtype), {shape, shape + 4}, {stride, stride + 4});
}

Tensor new_floats(const Place& place, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> stride(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) stride[i - 1] = stride[i] * shape[i];
  return new_tensor(place, TorchApi::get().fp32, shape, stride);
}

// Reads the arguments of a boxed kernel in the order of its schema and owns them.
class Stack {
 public:
  explicit Stack(StableIValue* values) : next_(values) {}

  Tensor tensor() { return Tensor(reinterpret_cast<Handle>(*next_++)); }
  Tensor optional_tensor() {
    const std::unique_ptr<StableIValue> value(reinterpret_cast<StableIValue*>(*next_++));
    return value ? Tensor(reinterpret_cast<Handle>(*value)) : Tensor();
  }
  std::int64_t integer() { return static_cast<std::int64_t>(*next_++); }
  bool boolean() { return (*next_++ & 0xff) != 0; }
  double real() {
    double value;
    static_assert(sizeof value == sizeof *next_);
    __builtin_memcpy(&value, next_++, sizeof value);
    return value;
  }
  std::string text() {
    const Handle handle = reinterpret_cast<Handle>(*next_++);
    const char* characters = "";
    TorchApi::get().string_text(handle, &characters);
    std::string text = characters;
    TorchApi::get().release_string(handle);
    return text;
  }

 private:
  StableIValue* next_;
};

// Arguments that both operators share; the strings `tensors` and `options` of register_operators() are their schema.
struct Arguments {
  Tensor q, k, v, bias, mask, sinks, alibi_slopes, lengths_q, lengths_k, first_keys, cu_seqlens_q, cu_seqlens_k, seed;
  Options options;
  std::string kernel;
  bool deterministic, batch_invariant;

  void read_tensors(Stack& stack) {
    q = stack.tensor();
    k = stack.tensor();
    v = stack.tensor();
    for (Tensor* one : {&bias, &mask, &sinks, &alibi_slopes, &lengths_q, &lengths_k, &first_keys, &cu_seqlens_q,
                        &cu_seqlens_k, &seed}) {
      *one = stack.optional_tensor();
    }
  }

  void read_options(Stack& stack) {
    options.scale = stack.real();
    options.softcap = stack.real();
    options.dropout_p = stack.real();
    for (std::int64_t* one : {&options.causal, &options.align, &options.window_left, &options.window_right,
                              &options.max_seqlen_q, &options.max_seqlen_k}) {
      *one = stack.integer();
    }
    kernel = stack.text();
    deterministic = stack.boolean();
    batch_invariant = stack.boolean();
    check_places();
    if (seed && place_of(seed).type == TorchApi::get().cpu) {
      options.seed = static_cast<std::uint64_t>(*static_cast<const std::int64_t*>(seed.data()));
    } else if (seed) {
      options.seed_data = static_cast<const std::uint64_t*>(seed.data());
    }
  }

  // Checks that all tensors are on the device of q. A seed may be in host memory.
  void check_places() const {
    const Place place = place_of(q);
    for (const Tensor* one : {&k, &v, &bias, &mask, &sinks, &alibi_slopes, &lengths_q, &lengths_k, &first_keys,
                              &cu_seqlens_q, &cu_seqlens_k}) {
      if (!*one) continue;
      const Place other = place_of(*one);
      if (other.type == place.type && other.index == place.index) continue;
      throw Refusal(STROBE_INVALID_ARGUMENT, "attention: the tensors are on different devices");
    }
  }

  strobe_attention attention() const {
    const strobe_const_view q_view = view_of<strobe_const_view>(q);
    const strobe_index_view offsets = indices_of("cu_seqlens_q", cu_seqlens_q);
    const std::int64_t heads = q_view.shape[1], sequences = offsets.data ? offsets.count - 1 : q_view.shape[0];
    std::int64_t slopes_stride = 0;
    const float* const slopes = per_head("alibi_slopes", alibi_slopes, heads, sequences, &slopes_stride);
    return attention_of({.q = q_view,
                         .k = view_of<strobe_const_view>(k),
                         .v = view_of<strobe_const_view>(v),
                         .bias = view_of<strobe_const_view>(bias),
                         .mask = mask_of(mask),
                         .sinks = per_head("sinks", sinks, heads),
                         .alibi_slopes = slopes,
                         .alibi_batch_stride = slopes_stride,
                         .first_keys = indices_of("first_keys", first_keys),
                         .lengths_q = indices_of("lengths_q", lengths_q),
                         .lengths_k = indices_of("lengths_k", lengths_k),
                         .cu_seqlens_q = offsets,
                         .cu_seqlens_k = indices_of("cu_seqlens_k", cu_seqlens_k)},
                        options);
  }
};

// Execution context of a call: the device of Q, torch's current stream and thread count, and a workspace from torch's
// allocator.
class Run {
 public:
  Run(const Arguments& arguments, const strobe_attention& attention, std::int32_t pass) {
    const TorchApi& api = TorchApi::get();
    const Place place = place_of(arguments.q);
    check(strobe_execution_init(&execution, sizeof execution));
    execution.kernel = arguments.kernel.c_str();
    execution.deterministic = arguments.deterministic;
    execution.batch_invariant = arguments.batch_invariant;
    if (place.type != api.cuda) {
      std::uint32_t threads = 0;
      check_torch(api.threads(&threads));
      execution.threads = static_cast<std::int32_t>(threads);
      return;
    }
    const TorchCudaApi& cuda = TorchCudaApi::get();
    check_torch(cuda.take_guard(place.index, &guard_));
    execution.device = STROBE_CUDA;
    check_torch(cuda.stream(place.index, &execution.stream));
    check(strobe_workspace_bytes(&attention, pass, &execution, &execution.workspace_bytes));
    if (execution.workspace_bytes == 0) return;
    workspace_ = new_tensor(place, api.uint8, {static_cast<std::int64_t>(execution.workspace_bytes)}, {1});
    execution.workspace = workspace_.data();
  }
  ~Run() {
    if (guard_) TorchCudaApi::get().give_guard(guard_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  strobe_execution execution;

 private:
  Handle guard_ = nullptr;
  Tensor workspace_;
};

StableIValue returned(Tensor&& tensor) { return reinterpret_cast<StableIValue>(tensor.take()); }

// Computes O and, if `lse` is not null, LSE.
void forward(const Arguments& arguments, Tensor* o, Tensor* lse) {
  const strobe_attention attention = arguments.attention();
  *o = new_like(arguments.q, attention.q, attention.v.shape[3]);
  if (lse) *lse = new_floats(place_of(arguments.q), {attention.q.shape[0], attention.q.shape[1], attention.q.shape[2]});
  const Run run(arguments, attention, STROBE_PASS_FORWARD);
  const strobe_forward_outputs outputs = {.size = sizeof outputs,
                                          .o = view_of<strobe_view>(*o),
                                          .lse = lse ? static_cast<float*>(lse->data()) : nullptr,
                                          .lse_stride = {}};
  check(strobe_forward(&attention, &outputs, &run.execution));
}

void forward_kernel(StableIValue* stack) {
  Stack in(stack);
  Arguments arguments;
  arguments.read_tensors(in);
  arguments.read_options(in);
  Tensor o, lse;
  forward(arguments, &o, &lse);
  stack[0] = returned(std::move(o));
  stack[1] = returned(std::move(lse));
}

struct Gradients {
  Tensor dq, dk, dv, dbias, dsinks;
};

// Returns the gradients of q, k and v, and those of bias and sinks if wanted.
Gradients backward(const Arguments& arguments, const Tensor& d_o, const Tensor& o, const Tensor& lse,
                   const Tensor& d_lse, bool wants_bias, bool wants_sinks) {
  const strobe_attention attention = arguments.attention();
  const Place place = place_of(arguments.q);
  Gradients result;
  auto& [dq, dk, dv, dbias, dsinks] = result;
  dq = new_like(arguments.q, attention.q, attention.q.shape[3]);
  dk = new_like(arguments.k, attention.k, attention.k.shape[3]);
  dv = new_like(arguments.v, attention.v, attention.v.shape[3]);
  const std::int64_t* const b = attention.bias.shape;
  if (wants_bias) dbias = new_floats(place, {b[0], b[1], b[2], b[3]});
  if (wants_sinks) dsinks = new_floats(place, {attention.q.shape[1]});
  const Run run(arguments, attention, STROBE_PASS_BACKWARD);
  const strobe_backward_inputs inputs = {.size = sizeof inputs,
                                         .o = view_of<strobe_const_view>(o),
                                         .lse = floats_of(lse),
                                         .d_o = view_of<strobe_const_view>(d_o),
                                         .lse_stride = {},
                                         .d_lse = floats_of(d_lse),
                                         .d_lse_stride = {}};
  const strobe_gradients gradients = {.size = sizeof gradients,
                                      .dq = view_of<strobe_view>(dq),
                                      .dk = view_of<strobe_view>(dk),
                                      .dv = view_of<strobe_view>(dv),
                                      .dbias = wants_bias ? view_of<strobe_view>(dbias) : strobe_view{},
                                      .dsinks = wants_sinks ? static_cast<float*>(dsinks.data()) : nullptr};
  check(strobe_backward(&attention, &inputs, &gradients, &run.execution));
  return result;
}

void backward_kernel(StableIValue* stack) {
  Stack in(stack);
  const Tensor d_o = in.tensor(), o = in.tensor(), lse = in.tensor(), d_lse = in.optional_tensor();
  Arguments arguments;
  arguments.read_tensors(in);
  arguments.read_options(in);
  const bool wants_bias = in.boolean(), wants_sinks = in.boolean();
  Gradients result = backward(arguments, d_o, o, lse, d_lse, wants_bias, wants_sinks);
  for (Tensor* one : {&result.dbias, &result.dsinks}) {
    if (!*one) *one = new_floats(place_of(arguments.q), {0});  // the schema has no optional results
  }
  stack[0] = returned(std::move(result.dq));
  stack[1] = returned(std::move(result.dk));
  stack[2] = returned(std::move(result.dv));
  stack[3] = returned(std::move(result.dbias));
  stack[4] = returned(std::move(result.dsinks));
}

template <void (*kKernel)(StableIValue*)>
void boxed(StableIValue* stack, std::uint64_t, std::uint64_t) {
  try {
    kKernel(stack);
  } catch (const Refusal& refusal) {
    last_status = refusal.status();
    throw;
  }
}

// Returns true if _check() of torch.py would accept the tensors.
bool is_common(const Arguments& arguments) {
  const TorchApi& api = TorchApi::get();
  const Place place = place_of(arguments.q);
  const std::int32_t dtype = arguments.q.ask(api.dtype);
  if (place.type != api.cpu && place.type != api.cuda) return false;
  if (dtype != api.fp32 && dtype != api.fp16 && dtype != api.bf16) return false;
  for (const Tensor* one : {&arguments.q, &arguments.k, &arguments.v}) {
    const Place other = place_of(*one);
    if (other.type != place.type || other.index != place.index || one->ask(api.dtype) != dtype) return false;
    if (one->ask(api.dim) != 4) return false;
    if (one->ask(api.strides)[3] != 1 && one->sizes()[3] != 1) return false;
  }
  return true;
}

void direct(DirectCall* call) {
  const Tensor d_o(call->d_o), o(call->o), lse(call->lse);
  Arguments arguments;
  arguments.q = Tensor(call->q);
  arguments.k = Tensor(call->k);
  arguments.v = Tensor(call->v);
  if (!is_common(arguments)) return;
  arguments.options = {.scale = call->scale,
                       .softcap = call->softcap,
                       .causal = call->causal,
                       .align = call->align,
                       .window_left = call->window_left,
                       .window_right = call->window_right};
  arguments.kernel = call->kernel;
  arguments.deterministic = call->deterministic;
  arguments.batch_invariant = call->batch_invariant;
  if (d_o) {
    Gradients result = backward(arguments, d_o, o, lse, Tensor(), false, false);
    call->results[0] = result.dq.take();
    call->results[1] = result.dk.take();
    call->results[2] = result.dv.take();
  } else {
    Tensor out, out_lse;
    forward(arguments, &out, call->wants_lse ? &out_lse : nullptr);
    call->results[0] = out.take();
    call->results[1] = out_lse.take();
  }
}

// Registers schemas and kernels with the dispatcher. The library handles live as long as the process.
void register_operators() {
  const auto fragment =
      find_cpu<Status(const char*, const char*, std::uint32_t, Handle*)>("aoti_torch_library_init_fragment");
  const auto implementation =
      find_cpu<Status(const char*, const char*, const char*, std::uint32_t, Handle*)>("aoti_torch_library_init_impl");
  const auto define = find_cpu<Status(Handle, const char*)>("aoti_torch_library_def");
  const auto implement = find_cpu<Status(Handle, const char*, BoxedKernel, std::uint64_t)>("torch_library_impl");
  constexpr std::uint64_t kVersion = 0x020a000000000000;  // LibTorch 2.10
  const std::string tensors =
      "Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor? mask, Tensor? sinks, Tensor? alibi_slopes, "
      "Tensor? lengths_q, Tensor? lengths_k, Tensor? first_keys, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? "
      "seed";
  const std::string options =
      "float scale, float softcap, float dropout_p, int causal, int align, int window_left, int window_right, "
      "int max_seqlen_q, int max_seqlen_k, str kernel, bool deterministic, bool batch_invariant";
  Handle library = nullptr;
  check_torch(fragment("strobe", "strobe", 0, &library));
  check_torch(define(library, ("forward(" + tensors + ", " + options + ") -> (Tensor, Tensor)").c_str()));
  check_torch(define(library, ("backward(Tensor d_o, Tensor o, Tensor lse, Tensor? d_lse, " + tensors + ", " + options +
                               ", bool wants_bias, bool wants_sinks) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
                                  .c_str()));
  for (const char* key : {"CPU", "CUDA"}) {
    Handle kernels = nullptr;
    check_torch(implementation("strobe", key, "strobe", 0, &kernels));
    check_torch(implement(kernels, "forward", boxed<forward_kernel>, kVersion));
    check_torch(implement(kernels, "backward", boxed<backward_kernel>, kVersion));
  }
}

}  // namespace
}  // namespace strobe_python

// Registers the operators. Call once per process, after torch is imported. Returns null, or an error message that stays
// valid until the next call.
extern "C" __attribute__((visibility("default"))) const char* strobe_torch_register() {
  static std::string failure;
  try {
    strobe_python::register_operators();
    return nullptr;
  } catch (const std::exception& error) {
    failure = error.what();
    return failure.c_str();
  }
}

// Returns the status of the calling thread's last failed call, as in strobe.h, and resets it to 0.
extern "C" __attribute__((visibility("default"))) int strobe_torch_take_status() {
  const int status = strobe_python::last_status;
  strobe_python::last_status = 0;
  return status;
}

// Computes a call of _core without the dispatcher; a strobe_python::DirectKernel.
extern "C" __attribute__((visibility("default"))) int strobe_torch_direct(strobe_python::DirectCall* call,
                                                                          const char** message) {
  static thread_local std::string failure;
  try {
    strobe_python::direct(call);
    return STROBE_OK;
  } catch (const strobe_python::Refusal& refusal) {
    failure = refusal.what();
    *message = failure.c_str();
    return refusal.status();
  } catch (const std::exception& error) {
    failure = error.what();
    *message = failure.c_str();
    return STROBE_RUNTIME;
  }
}
