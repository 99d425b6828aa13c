// Implements the sizes of a test case, and features(): the axis values that the case covers.
#include "support/case.h"

#include <fmt/format.h>

#include <numeric>

namespace strobe::test {
namespace {

const char* window_kind(const Window& window) {
  if (window.left < 0 && window.right < 0) return "none";
  if (window.left >= 0 && window.right >= 0) return "both";
  return window.left >= 0 ? "left" : "right";
}

const char* scale_kind(const Case& c) {
  if (!c.scale) return "default";
  if (*c.scale == 0) return "zero";
  if (*c.scale < 0) return "negative";
  return *c.scale > 1 ? "large" : "given";
}

std::string bias_kind(const Case& c) {
  if (!c.bias) return "none";
  return fmt::format("[{},{},{},Sk]", c.bias_shape.batch ? "B" : "1", c.bias_shape.heads ? "H" : "1",
                     c.bias_shape.rows ? "Sq" : "1");
}

std::string mask_kind(const Case& c) {
  if (!c.mask) return "none";
  return fmt::format("[{},{},{},{}]", c.mask_shape.batch ? "B" : "1", c.mask_shape.heads ? "H" : "1",
                     c.mask_shape.rows ? "Sq" : "1", c.mask_shape.keys ? "Sk" : "1");
}

}  // namespace

std::int64_t Case::total_q() const {
  return packed() ? std::accumulate(lengths_q.begin(), lengths_q.end(), std::int64_t{0}) : sq;
}

std::int64_t Case::total_k() const {
  return packed() ? std::accumulate(lengths_k.begin(), lengths_k.end(), std::int64_t{0}) : sk;
}

Shape Case::bias_dims() const {
  return {bias_shape.batch ? batch : 1, bias_shape.heads ? heads_q : 1, bias_shape.rows ? sq : 1, sk};
}

Shape Case::mask_dims() const {
  return {mask_shape.batch ? batch : 1, mask_shape.heads ? heads_q : 1, mask_shape.rows ? sq : 1,
          mask_shape.keys ? sk : 1};
}

Case Case::for_gpu() const {
  Case c = *this;
  c.seed_data = c.batch_invariant = false;
  return c;
}

Case Case::for_hopper() const {
  Case c = for_gpu();
  c.alibi_batch = c.mask = c.mask_transposed = false;
  c.mask_shape = {};
  c.first_keys.clear();
  return c;
}

std::vector<std::string> features(const Case& c) {
  std::vector<std::string> list = {
      fmt::format("dtype={}", name_of(c.dtype)),
      fmt::format("batch={}", c.batch),
      fmt::format("group={}", c.heads_q / c.heads_kv),
      fmt::format("heads_q={}", c.heads_q),
      fmt::format("Sq={}", c.sq),
      fmt::format("Sk={}", c.sk),
      fmt::format("D={}", c.d),
      fmt::format("Dv={}", c.dv),
      fmt::format("Sq-Sk={}", c.sq < c.sk    ? "less"
                              : c.sq == c.sk ? "equal"
                                             : "more"),
      fmt::format("Dv-D={}", c.d == c.dv ? "equal" : "differ"),
      fmt::format("causal={}", c.causal ? text_of(c.alignment) : "no"),
      fmt::format("window={}{}", window_kind(c.window), c.causal ? "+causal" : ""),
      fmt::format("scale={}", scale_kind(c)),
      fmt::format("softcap={}", c.softcap != 0 ? "on" : "off"),
      fmt::format("alibi={}", c.alibi ? text_of(c.alignment) : "no"),
      fmt::format("bias={}", bias_kind(c)),
      fmt::format("sinks={}", c.sinks ? "on" : "off"),
      fmt::format("dropout={}", c.dropout),
      fmt::format("lengths={}", text_of(c.lengths)),
      fmt::format("layout_do={}", name_of(c.layout_do)),
      fmt::format("layout_out={}", name_of(c.layout_out)),
      fmt::format("aligned={}", c.misalign == 0 ? "yes" : "no"),
      fmt::format("values={}", text_of(c.values)),
      fmt::format("threads={}", c.threads),
      fmt::format("workspace={}", c.own_workspace ? "own" : "library"),
      fmt::format("mask={}", mask_kind(c)),
      fmt::format("d_lse={}", c.d_lse ? "on" : "off"),
      fmt::format("layout_lse={}", name_of(c.layout_lse)),
      fmt::format("first_keys={}", c.first_keys.empty() ? "no" : "yes"),
  };
  if (c.alibi && c.alibi_batch) list.push_back("alibi=batch");
  if (c.dropout > 0 && c.seed_data) list.push_back("dropout=seed_data");
  if (c.batch_invariant) list.push_back("batch_invariant");
  if (c.mask_transposed) list.push_back("mask=transposed");
  if (c.window.left == 0 || c.window.right == 0) list.push_back("window=zero");
  if (c.bias) {
    list.push_back(fmt::format("bias_dtype={}", c.bias_dtype == DType::fp32 ? "fp32" : "narrow"));
    list.push_back(fmt::format("bias_values={}", text_of(c.bias_values)));
    list.push_back(fmt::format("dbias={}", c.dbias ? "yes" : "no"));
    list.push_back(fmt::format("layout_bias={}", name_of(c.layout_bias)));
  }
  if (c.lengths != Lengths::none) {
    list.push_back(fmt::format("index_bits={}", c.index_bits));
    for (std::int64_t b = 0; b < c.batch; ++b) {
      if (c.seqlen_q(b) == 0 || c.seqlen_k(b) == 0) {
        list.push_back(c.packed() ? "packed=zero_length" : "lengths=zero");
        break;
      }
    }
  }
  for (std::int64_t b = 0; b < c.batch; ++b) {
    if (c.sk > 384 && c.seqlen_k(b) > 384 && c.seqlen_q(b) > 64) {  // more keys than a block of flash2
      list.push_back("blocks=several");
      break;
    }
  }
  if (c.fused) {
    list.push_back("fused_qkv");
  } else {
    for (const Layout layout : {c.layout_q, c.layout_k, c.layout_v}) {
      list.push_back(fmt::format("layout={}", name_of(layout)));
    }
  }
  return list;
}

}  // namespace strobe::test
