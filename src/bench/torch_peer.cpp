// Implements TorchPeer: sends requests and tensors to python/torch_peer.py.
#include "bench/torch_peer.h"

#include <algorithm>
#include <cstring>

#include "bench/memory_model.h"
#include "core/fail.h"
#include "measure/quiet.h"

namespace strobe::bench {
namespace {

constexpr std::int64_t kGpuFlushBytes = 256 << 20;  // FLUSH_BYTES of python/torch_peer.py

Json place_json(std::int64_t offset, const std::array<std::int64_t, 4>& shape) {
  Json sizes = Json::array();
  for (const std::int64_t size : shape) sizes.push_back(size);
  return Json::object({{"offset", offset}, {"shape", sizes}});
}

// The members of a request that describe the case.
Json case_json(const AttentionCase& one) {
  Json json = Json::object({{"hot", one.cache == Cache::hot},
                            {"deterministic", one.deterministic},
                            {"heads", one.heads},
                            {"kv_heads", one.kv_heads},
                            {"seqlen_q", one.seqlen_q},
                            {"seqlen_k", one.seqlen_k},
                            {"align", one.alignment == Alignment::bottom_right ? "bottom_right" : "top_left"},
                            {"backward", has_backward(one.passes)}});
  const Json config = config_json(one);
  for (const char* key : {"threads", "device", "dtype", "tf32", "head_dim", "causal", "window", "softcap", "alibi",
                          "bias", "bias_gradient", "sinks", "dropout", "lengths"}) {
    json.set(key, config.at(key));
  }
  return json;
}

}  // namespace

bool is_torch_peer(std::string_view implementation) {
  return std::find(std::begin(kTorchPeers), std::end(kTorchPeers), implementation) != std::end(kTorchPeers);
}

// Prefixes Python's errors with the peer's name.
Json TorchPeer::ask(Json message) {
  try {
    return python_->ask(message.set("implementation", name_));
  } catch (const ImplementationError& error) {
    throw ImplementationError(error.status(), fmt::format("{}: {}", name_, error.what()), error.memory());
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name_, error.what());
  }
}

Json TorchPeer::ask_prepared(Json message) {
  if (generation_ != python_->generation()) {
    start(case_);
    send_case();
  }
  return ask(std::move(message));
}

void TorchPeer::start(const AttentionCase& one) {
  try {
    python_->start(one.threads);
  } catch (const ImplementationError& error) {
    throw ImplementationError(error.status(), fmt::format("{}: {}", name_, error.what()));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name_, error.what());
  }
}

TorchPeer::Place TorchPeer::place(const std::array<std::int64_t, 4>& shape) {
  const Place found{bytes_, shape};
  const std::int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
  bytes_ += (count * static_cast<std::int64_t>(size_of(case_.dtype)) + 63) / 64 * 64;
  return found;
}

std::optional<std::int64_t> TorchPeer::predicted_bytes(const AttentionCase& one) {
  tensor_bytes(one);  // throws on sizes that overflow
  start(one);
  ask(case_json(one).set("command", "check"));
  // The workspace of PyTorch's kernels is unknown.
  if (name_ != "torch-naive" || one.options.any()) return std::nullopt;
  const MemoryModel model = predict_torch_naive(one);
  return model.forward_bytes() + model.backward_bytes();
}

// On a CPU every tensor exists twice, in the shared memory and in the child. On a GPU the child has an L2 flush buffer.
std::int64_t TorchPeer::needed_bytes(const AttentionCase& one) {
  const std::optional<std::int64_t> predicted = predicted_bytes(one);  // throws if unsupported
  const TensorBytes bytes = tensor_bytes(one);
  const std::int64_t tensors = bytes.forward() + (has_backward(one.passes) ? bytes.backward_extra() : 0);
  std::int64_t needed = predicted.value_or(tensors) + (one.device == Device::cpu ? tensors : kGpuFlushBytes);
  if (name_ == "torch-math" || name_ == "torch-compile")
    needed += predict_plain(one).forward_bytes() - bytes.inputs() - bytes.o;
  return needed;
}

// Computes the layout of the shared memory. It holds tensors only during a `prepare` or `results` request, so all peers
// use the same memory.
void TorchPeer::lay_out() {
  bytes_ = 0;
  const std::array queries{case_.batch, case_.heads, case_.seqlen_q, case_.head_dim};
  const std::array keys{case_.batch, case_.kv_heads, case_.seqlen_k, case_.head_dim};
  q_ = place(queries);
  k_ = place(keys);
  v_ = place(keys);
  o_ = place(queries);
  bias_ = place(bias_shape(case_));
  if (!has_backward(case_.passes)) return;
  d_o_ = place(queries);
  dq_ = place(queries);
  dk_ = place(keys);
  dv_ = place(keys);
}

Json TorchPeer::places() const {
  Json tensors = Json::object({{"q", place_json(q_.offset, q_.shape)},
                               {"k", place_json(k_.offset, k_.shape)},
                               {"v", place_json(v_.offset, v_.shape)},
                               {"o", place_json(o_.offset, o_.shape)}});
  if (!case_.options.bias.empty()) tensors.set("bias", place_json(bias_.offset, bias_.shape));
  if (has_backward(case_.passes)) {
    tensors.set("d_o", place_json(d_o_.offset, d_o_.shape));
    tensors.set("dq", place_json(dq_.offset, dq_.shape));
    tensors.set("dk", place_json(dk_.offset, dk_.shape));
    tensors.set("dv", place_json(dv_.offset, dv_.shape));
  }
  return tensors;
}

void TorchPeer::prepare(const AttentionCase& one, const Inputs& inputs) {
  start(one);
  case_ = one;
  inputs_ = &inputs;
  lay_out();
  send_case();
}

void TorchPeer::send_case() {
  const AttentionCase& one = case_;
  generation_ = python_->generation();
  SharedMemory& memory = python_->memory();
  memory.resize(static_cast<std::size_t>(bytes_));
  const auto put = [&](const Place& at, const Buffer& from) {
    if (from.bytes() > 0) std::memcpy(memory.data() + at.offset, from.data(), from.bytes());
  };
  put(q_, inputs_->q);
  put(k_, inputs_->k);
  put(v_, inputs_->v);
  put(bias_, inputs_->bias);
  if (has_backward(one.passes)) put(d_o_, inputs_->d_o);
  const Json answer = ask(case_json(one).set("command", "prepare").set("bytes", bytes_).set("tensors", places()));
  memory.resize(0);  // Python has copied the tensors
  kernel_ = answer.at("kernel").as_string();
  configuration_ = fmt::format("{}, {}", python_->versions(), answer.at("configuration").as_string());
}

void TorchPeer::release() {
  inputs_ = nullptr;
  if (generation_ == 0 || generation_ != python_->generation()) return;  // Python has ended, so it holds nothing
  try {
    python_->memory().resize(0);
    ask(Json::object({{"command", "release"}}));
  } catch (const Error&) {  // Python has ended; the next prepare() restarts it
  }
}

double TorchPeer::time(Region region) {
  const Json answer = ask_prepared(Json::object({{"command", "time"}, {"region", name_of(region)}}));
  const double seconds = answer.at("seconds").as_number();
  if (!(seconds > 0))
    throw ImplementationError(Status::crashed,
                              fmt::format("{}: measured {} s for a call; a time must be positive", name_, seconds));
  return seconds;
}

Results TorchPeer::results() {
  SharedMemory& memory = python_->memory();
  memory.resize(static_cast<std::size_t>(bytes_));
  if (bytes_ > 0) std::memset(memory.data(), 0xff, static_cast<std::size_t>(bytes_));  // NaN until written
  ask(Json::object({{"command", "results"}, {"bytes", bytes_}, {"tensors", places()}}));
  const auto view = [&](const Place& at) -> ConstView {
    return view_bhsd(static_cast<const void*>(memory.data() + at.offset), case_.dtype, at.shape);
  };
  Results results{.o = view(o_), .dq = {}, .dk = {}, .dv = {}, .lse = nullptr};
  if (has_backward(case_.passes)) {
    results.dq = view(dq_);
    results.dk = view(dk_);
    results.dv = view(dv_);
  }
  return results;
}

std::optional<std::int64_t> TorchPeer::metered_bytes() { return ask_bytes("peak"); }
std::optional<std::int64_t> TorchPeer::saved_bytes() { return ask_bytes("kept"); }

std::optional<std::int64_t> TorchPeer::ask_bytes(const char* command) {
  try {
    return ask(Json::object({{"command", command}})).at("bytes").as_integer();
  } catch (const ImplementationError& error) {
    if (python_->generation() == 0 || error.status() == Status::oom) throw;
    return std::nullopt;  // Python runs, but this PyTorch has no memory meter
  }
}

void TorchPeer::settle() {
  if (case_.device == Device::cpu && python_->pid() > 0) wait_until_quiet(python_->pid());
}

}  // namespace strobe::bench
