// Attention forward and backward as oneDNN matmul and softmax primitives. The G = H / Hkv query heads of a KV head are
// adjacent, so one matmul processes all their rows. With b = B * Hkv and r = G * Sq:
//   P [b, r, Sk] = softmax(scale * Q K^T + mask), O [b, r, D] = P V
//   dP = dO V^T, dS = softmax gradient, dQ = scale * dS K, dK = scale * dS^T Q, dV = P^T dO
// All memory comes from the counting allocator, including oneDNN's scratchpad.
#include "bench/onednn_peer.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <dnnl.hpp>
#include <limits>

#include "core/clock.h"
#include "core/fail.h"
#include "measure/quiet.h"

namespace strobe::bench {
namespace {

using dnnl::memory;
enum class Side { straight, transposed };

memory::data_type type_of(DType dtype) {
  return dtype == DType::fp32   ? memory::data_type::f32
         : dtype == DType::bf16 ? memory::data_type::bf16
                                : memory::data_type::f16;
}

// The primitives of a case and the size of their scratchpad.
struct Plan {
  Plan(const AttentionCase& one, const dnnl::engine& engine) : one(one) {
    const std::int64_t b = one.batch * one.kv_heads, r = one.heads / one.kv_heads * one.seqlen_q;
    const std::int64_t d = one.head_dim, keys = one.seqlen_k;
    const auto desc = [&](std::int64_t rows, std::int64_t columns, Side side = Side::straight) {
      using tag = memory::format_tag;
      return memory::desc({b, rows, columns}, type_of(one.dtype), side == Side::straight ? tag::abc : tag::acb);
    };
    const float scale = 1 / std::sqrt(static_cast<float>(d));
    const auto matmul = [&](const memory::desc& left, const memory::desc& right, const memory::desc& result,
                            float factor, const memory::desc* added = nullptr) {
      dnnl::primitive_attr attributes = with_scratchpad();
      if (factor != 1) attributes.set_output_scales(0, {factor});
      if (added) {
        dnnl::post_ops operations;
        operations.append_binary(dnnl::algorithm::binary_add, *added);
        attributes.set_post_ops(operations);
      }
      return kept(dnnl::matmul::primitive_desc(dnnl::matmul::desc(left, right, result), attributes, engine));
    };
    const memory::desc p = desc(r, keys);
    mask = memory::desc({1, r, keys}, memory::data_type::f32, memory::format_tag::abc);
    scores = matmul(desc(r, d), desc(d, keys, Side::transposed), p, scale, one.masked() ? &mask : nullptr);
    const auto kind = dnnl::prop_kind::forward_training;
    softmax = kept(dnnl::softmax_forward::primitive_desc({kind, p, 2}, with_scratchpad(), engine));
    o = matmul(p, desc(keys, d), desc(r, d), 1);
    if (!has_backward(one.passes)) return;
    dp = matmul(desc(r, d), desc(d, keys, Side::transposed), p, 1);
    ds = kept(dnnl::softmax_backward::primitive_desc({p, p, 2}, with_scratchpad(), engine, softmax));
    dq = matmul(p, desc(keys, d), desc(r, d), scale);
    dk = matmul(desc(keys, r, Side::transposed), desc(r, d), desc(keys, d), scale);
    dv = matmul(desc(keys, r, Side::transposed), desc(r, d), desc(keys, d), 1);
  }

  std::int64_t score_bytes() const { return static_cast<std::int64_t>(scores.dst_desc().get_size()); }
  std::int64_t mask_bytes() const { return one.masked() ? static_cast<std::int64_t>(mask.get_size()) : 0; }
  std::int64_t bytes() const {  // without the tensors
    return score_bytes() * (has_backward(one.passes) ? 2 : 1) + mask_bytes() + static_cast<std::int64_t>(scratch);
  }

  AttentionCase one;
  memory::desc mask;
  dnnl::matmul::primitive_desc scores, o, dp, dq, dk, dv;
  dnnl::softmax_forward::primitive_desc softmax;
  dnnl::softmax_backward::primitive_desc ds;
  std::size_t scratch = 0;

 private:
  static dnnl::primitive_attr with_scratchpad() {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attributes;
  }
  template <class Description>
  Description kept(Description made) {
    scratch = std::max(scratch, made.scratchpad_desc().get_size());
    return made;
  }
};

class OnednnPeer : public Implementation {
 public:
  std::string name() const override { return kOnednnPeer; }
  std::string kernel() const override { return "matmul, softmax, matmul"; }
  std::string configuration() const override { return configuration_; }

  std::optional<std::int64_t> predicted_bytes(const AttentionCase& one) override {
    const TensorBytes bytes = tensor_bytes(one);
    const std::int64_t tensors = bytes.inputs() + bytes.o + (has_backward(one.passes) ? bytes.backward_extra() : 0);
    return tensors + make_plan(one).bytes();
  }

  void prepare(const AttentionCase& one, const Inputs& inputs) override {
    plan_ = std::make_unique<Plan>(make_plan(one));
    inputs_ = &inputs;
    const dnnl_version_t* version = dnnl_version();
    configuration_ = fmt::format("oneDNN {}.{}.{}, {}, {}", version->major, version->minor, version->patch,
                                 plan_->scores.impl_info_str(), plan_->softmax.impl_info_str());
    host_allocator().reset_peak();
    const TensorBytes bytes = tensor_bytes(one);
    const auto take = [](std::int64_t count) {
      Buffer buffer(static_cast<std::size_t>(count));
      if (count > 0) std::memset(buffer.data(), 0xff, buffer.bytes());  // NaN until written
      return buffer;
    };
    p_ = take(plan_->score_bytes());
    o_ = take(bytes.o);
    scratch_ = take(static_cast<std::int64_t>(plan_->scratch));
    mask_ = take(plan_->mask_bytes());
    if (one.masked()) fill_mask(one);
    if (!has_backward(one.passes)) return;
    dp_ = take(plan_->score_bytes());
    dq_ = take(bytes.q);
    dk_ = take(bytes.k);
    dv_ = take(bytes.v);
  }

  void release() override {
    for (Buffer* buffer : {&p_, &dp_, &o_, &dq_, &dk_, &dv_, &mask_, &scratch_}) *buffer = Buffer();
  }

  double time(Region region) override {
    omp_set_num_threads(plan_->one.threads);
    const double begin = now_seconds();
    if (region != Region::backward) run_forward();
    if (region != Region::forward) run_backward();
    return now_seconds() - begin;
  }

  Results results() override {
    const auto view = [&](const Buffer& buffer, const ConstView& like) -> ConstView {
      return view_bhsd(static_cast<const void*>(buffer.data()), plan_->one.dtype, like.shape);
    };
    const Attention& attention = inputs_->attention;
    return {.o = view(o_, attention.q),
            .dq = view(dq_, attention.q),
            .dk = view(dk_, attention.k),
            .dv = view(dv_, attention.v)};
  }

  std::optional<std::int64_t> metered_bytes() override {
    return static_cast<std::int64_t>(host_allocator().statistics().peak);
  }
  std::optional<std::int64_t> saved_bytes() override {
    for (Buffer* buffer : {&dp_, &dq_, &dk_, &dv_, &scratch_}) *buffer = Buffer();
    const std::int64_t d_o = tensor_bytes(plan_->one).o;
    return static_cast<std::int64_t>(host_allocator().statistics().current) - d_o;
  }
  void settle() override { wait_until_quiet(getpid()); }

 private:
  // Throws Error(unsupported) for cases that these primitives cannot express.
  Plan make_plan(const AttentionCase& one) const {
    const auto refuse = [](const std::string& why) { fail(ErrorCode::unsupported, "{}: {}", kOnednnPeer, why); };
    if (one.device != Device::cpu) refuse("runs on the CPU only; valid: --device cpu");
    if (one.options.any()) refuse("this peer does not support score options" + describe_options(one.options));
    if (std::min({one.batch, one.seqlen_q, one.seqlen_k}) == 0) refuse("batch and sequences must not be empty");
    for (std::int64_t i = 0; i < one.seqlen_q; ++i) {
      const Keys keys = visible_keys(one, 0, i);
      if (keys.first >= keys.last) refuse(fmt::format("row {} has no keys: this softmax returns NaN", i));
    }
    omp_set_num_threads(one.threads);
    try {
      return Plan(one, engine_);
    } catch (const dnnl::error& error) {
      fail(ErrorCode::unsupported, "{}: no primitive for {} here ({})", kOnednnPeer, strobe::name_of(one.dtype),
           error.what());
    }
  }

  // Fills the additive mask, which all heads share: 0 if a row may use a key, else -inf.
  void fill_mask(const AttentionCase& one) {
    float* row = mask_.as<float>();
    for (std::int64_t i = 0; i < one.heads / one.kv_heads * one.seqlen_q; ++i, row += one.seqlen_k) {
      const Keys keys = visible_keys(one, 0, i % one.seqlen_q);
      std::fill(row, row + one.seqlen_k, -std::numeric_limits<float>::infinity());
      std::fill(row + keys.first, row + keys.last, 0.0f);
    }
  }

  void run_matmul(const dnnl::matmul::primitive_desc& desc, const void* left, const void* right, const Buffer& result) {
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, memory(desc.src_desc(), engine_, const_cast<void*>(left))},
        {DNNL_ARG_WEIGHTS, memory(desc.weights_desc(), engine_, const_cast<void*>(right))},
        {DNNL_ARG_DST, memory(desc.dst_desc(), engine_, result.data())},
        {DNNL_ARG_SCRATCHPAD, memory(desc.scratchpad_desc(), engine_, scratch_.data())}};
    if (mask_.bytes() > 0 && &desc == &plan_->scores) {
      arguments.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, memory(plan_->mask, engine_, mask_.data()));
    }
    dnnl::matmul(desc).execute(stream_, arguments);
  }

  void run_forward() {
    run_matmul(plan_->scores, inputs_->q.data(), inputs_->k.data(), p_);
    const memory p(plan_->softmax.dst_desc(), engine_, p_.data());
    const memory scratch(plan_->softmax.scratchpad_desc(), engine_, scratch_.data());
    dnnl::softmax_forward(plan_->softmax)
        .execute(stream_, {{DNNL_ARG_SRC, p}, {DNNL_ARG_DST, p}, {DNNL_ARG_SCRATCHPAD, scratch}});
    run_matmul(plan_->o, p_.data(), inputs_->v.data(), o_);
    stream_.wait();
  }

  void run_backward() {
    const void* d_o = inputs_->d_o.data();
    run_matmul(plan_->dv, p_.data(), d_o, dv_);
    run_matmul(plan_->dp, d_o, inputs_->v.data(), dp_);
    const memory p(plan_->ds.dst_desc(), engine_, p_.data()), dp(plan_->ds.dst_desc(), engine_, dp_.data());
    const memory scratch(plan_->ds.scratchpad_desc(), engine_, scratch_.data());
    dnnl::softmax_backward(plan_->ds).execute(
        stream_, {{DNNL_ARG_DST, p}, {DNNL_ARG_DIFF_DST, dp}, {DNNL_ARG_DIFF_SRC, dp}, {DNNL_ARG_SCRATCHPAD, scratch}});
    run_matmul(plan_->dq, dp_.data(), inputs_->k.data(), dq_);
    run_matmul(plan_->dk, dp_.data(), inputs_->q.data(), dk_);
    stream_.wait();
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::unique_ptr<Plan> plan_;
  const Inputs* inputs_ = nullptr;
  std::string configuration_;
  Buffer p_, dp_, o_, dq_, dk_, dv_, mask_, scratch_;
};

}  // namespace

std::unique_ptr<Implementation> make_onednn_peer() { return std::make_unique<OnednnPeer>(); }

}  // namespace strobe::bench
