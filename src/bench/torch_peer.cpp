// The parent's side of python/torch_peer.py.
#include "bench/torch_peer.h"

#include <cstdlib>
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

std::string interpreter() {
  const char* named = std::getenv("STROBE_PYTHON");
  return named && *named ? named : "python3";
}

}  // namespace

Json TorchPeer::ask(Json message) {
  if (!child_) throw ImplementationError(Status::crashed, fmt::format("{}: the child has ended", name_));
  try {
    const Json answer = child_->request(message, timeout_);
    if (answer.at("ok").as_bool()) return answer;
    const std::string text = fmt::format("{}: {}", name_, answer.at("reason").as_string());
    const std::string& status = answer.at("status").as_string();
    if (status == "unsupported") fail(ErrorCode::unsupported, "{}", text);
    throw ImplementationError(status == "oom" ? Status::oom : Status::crashed, text);
  } catch (const ImplementationError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) throw;
    throw ImplementationError(Status::crashed, fmt::format("{}: {}", name_, error.what()));
  }
}

void TorchPeer::start(const Case& one) {
  if (child_ && child_->pid() > 0) return;
  memory_ = std::make_unique<SharedMemory>();
  try {
    const std::vector<std::string> command{interpreter(), "-u", "-c", torch_peer_script()};
    child_ = std::make_unique<Child>(command, ChildOptions{.memory = memory_.get()});
  } catch (const Error& error) {
    fail(error.code(), "{}: {}; STROBE_PYTHON names another interpreter", name_, error.what());
  }
  const Json hello = ask(Json::object({{"command", "hello"}, {"threads", one.threads}}));
  versions_ = fmt::format("torch {}, python {}", hello.at("torch").as_string(), hello.at("python").as_string());
}

TorchPeer::Place TorchPeer::place(std::int64_t heads, std::int64_t rows) {
  const Place found{bytes_, {case_.batch, heads, rows, case_.head_dim}};
  const std::int64_t count = case_.batch * heads * rows * case_.head_dim;
  bytes_ += (count * static_cast<std::int64_t>(size_of(case_.dtype)) + 63) / 64 * 64;
  return found;
}

std::optional<std::int64_t> TorchPeer::predicted_bytes(const Case& one) {
  tensor_bytes(one);  // sizes that overflow are refused here
  if (one.options.any()) {
    fail(ErrorCode::unsupported, "{}: the peer is not asked for score options{}", name_, describe_options(one.options));
  }
  start(one);
  return std::nullopt;  // what PyTorch takes beside the tensors is its own affair
}

// On a CPU every tensor is there twice, in the shared memory and in the child; a GPU has one copy and the flush buffer.
// Some hold the scores of all heads as well.
std::int64_t TorchPeer::needed_bytes(const Case& one) {
  predicted_bytes(one);  // refuses
  const TensorBytes bytes = tensor_bytes(one);
  const std::int64_t tensors = bytes.forward() + (has_backward(one.passes) ? bytes.backward_extra() : 0);
  std::int64_t needed = one.device == Device::cpu ? 2 * tensors : tensors + kGpuFlushBytes;
  const bool holds_scores = name_ == "torch-math" || name_ == "torch-naive" || name_ == "torch-compile";
  if (holds_scores) needed += predict_plain(one).forward_bytes() - bytes.inputs() - bytes.o;
  return needed;
}

void TorchPeer::prepare(const Case& one, const Inputs& inputs) {
  start(one);
  case_ = one;
  bytes_ = 0;
  q_ = place(one.heads, one.seq_q);
  k_ = place(one.kv_heads, one.seq_k);
  v_ = place(one.kv_heads, one.seq_k);
  o_ = place(one.heads, one.seq_q);
  Json tensors = Json::object({{"q", place_json(q_.offset, q_.shape)},
                               {"k", place_json(k_.offset, k_.shape)},
                               {"v", place_json(v_.offset, v_.shape)},
                               {"o", place_json(o_.offset, o_.shape)}});
  const bool backward = has_backward(one.passes);
  if (backward) {
    d_o_ = place(one.heads, one.seq_q);
    dq_ = place(one.heads, one.seq_q);
    dk_ = place(one.kv_heads, one.seq_k);
    dv_ = place(one.kv_heads, one.seq_k);
    tensors.set("d_o", place_json(d_o_.offset, d_o_.shape));
    tensors.set("dq", place_json(dq_.offset, dq_.shape));
    tensors.set("dk", place_json(dk_.offset, dk_.shape));
    tensors.set("dv", place_json(dv_.offset, dv_.shape));
  }
  memory_->resize(static_cast<std::size_t>(bytes_));
  if (bytes_ > 0) std::memset(memory_->data(), 0xff, static_cast<std::size_t>(bytes_));  // NaN until written
  const auto put = [&](const Place& at, const Buffer& from) {
    if (from.bytes() > 0) std::memcpy(memory_->data() + at.offset, from.data(), from.bytes());
  };
  put(q_, inputs.q);
  put(k_, inputs.k);
  put(v_, inputs.v);
  if (backward) put(d_o_, inputs.d_o);
  const Json answer =
      ask(Json::object({{"command", "prepare"},
                        {"implementation", name_},
                        {"threads", one.threads},
                        {"device", strobe::bench::name_of(one.device)},
                        {"hot", one.cache == Cache::hot},
                        {"dtype", strobe::name_of(one.dtype)},
                        {"tf32", one.tf32},
                        {"heads", one.heads},
                        {"kv_heads", one.kv_heads},
                        {"head_dim", one.head_dim},
                        {"seq_q", one.seq_q},
                        {"seq_k", one.seq_k},
                        {"causal", one.causal},
                        {"align", one.alignment == Alignment::bottom_right ? "bottom_right" : "top_left"},
                        {"window", Json::array({one.window.left, one.window.right})},
                        {"backward", backward},
                        {"bytes", bytes_},
                        {"tensors", tensors}}));
  kernel_ = answer.at("kernel").as_string();
  configuration_ = fmt::format("{}, {}", versions_, answer.at("configuration").as_string());
}

void TorchPeer::release() {
  if (!child_) return;
  try {
    ask(Json::object({{"command", "release"}}));
  } catch (const Error&) {
    child_.reset();  // a dead child is restarted by the next prepare
  }
  memory_->resize(0);
}

double TorchPeer::time(Region region) {
  const Json answer = ask(Json::object({{"command", "time"}, {"region", name_of(region)}}));
  const double seconds = answer.at("seconds").as_number();
  if (!(seconds > 0)) throw ImplementationError(Status::crashed, fmt::format("{}: a call of {} s", name_, seconds));
  return seconds;
}

Results TorchPeer::results() {
  ask(Json::object({{"command", "results"}}));
  const auto view = [&](const Place& at) -> ConstView {
    return view_bhsd(static_cast<const void*>(memory_->data() + at.offset), case_.dtype, at.shape);
  };
  Results results{.o = view(o_), .dq = {}, .dk = {}, .dv = {}, .lse = nullptr};
  if (has_backward(case_.passes)) {
    results.dq = view(dq_);
    results.dk = view(dk_);
    results.dv = view(dv_);
  }
  return results;
}

std::optional<std::int64_t> TorchPeer::metered_bytes() {
  try {
    return ask(Json::object({{"command", "peak"}})).at("bytes").as_integer();
  } catch (const ImplementationError&) {
    if (child_->pid() < 0) throw;
    return std::nullopt;  // alive: this PyTorch has no such meter
  }
}

void TorchPeer::settle() {
  if (case_.device == Device::cpu && child_ && child_->pid() > 0) wait_until_quiet(child_->pid());
}

}  // namespace strobe::bench
