// Prints the tile shapes of the Hopper kernels, from their config headers, as JSON for play-barriers.
#include <cstdio>
#include <utility>

#include "attention/cuda/sm90/backward_fp32/config.h"
#include "attention/cuda/sm90/decode/config.h"
#include "attention/cuda/sm90/forward_fp32/config.h"

namespace strobe::cuda::sm90 {
namespace {

const char* name_of(Share share) {
  return share == Share::keys ? "keys" : share == Share::columns ? "columns" : "tiles";
}

// Prints the elements of a JSON list, with the commas.
class List {
 public:
  explicit List(const char* name) { std::printf("%s\"%s\": [", std::exchange(first_list_, false) ? "{" : ", ", name); }
  ~List() { std::printf("]"); }
  List(const List&) = delete;
  List& operator=(const List&) = delete;

  template <class... Values>
  void add(const char* format, Values... values) {
    std::printf("%s", std::exchange(first_, false) ? "" : ", ");
    std::printf(format, values...);
  }

 private:
  static inline bool first_list_ = true;
  bool first_ = true;
};

void print_forward() {
  List list("forward");
  const auto add = [&](HeadDims dims, const ForwardShape& shape) {
    list.add(R"({"d": %d, "consumers": %d, "stages": %d, "q_stages": %d, "rotates": %d, "passes": %d, "shares": %d})",
             dims.d, shape.consumers, shape.stages, shape.q_stages, int{rotates(dims, shape)}, int{shape.passes},
             int{shape.shares});
  };
  for (const ForwardRule& rule : kForwardRules) add(rule.dims, rule.shape);
  for (const HeadDims dims : kDroppingDims) add(dims, dropping_shape(dims));
  for (const HeadDims dims : kForwardDims) {
    for (const int rows : {64, 128}) add(dims, small_shape(dims, rows));
  }
}

void print_forward_fp32() {
  List list("forward_fp32");
  for (const auto& [d, shape] : kFp32Rules) {
    list.add(R"({"d": %d, "consumers": %d, "stages": %d, "q_stages": %d, "pieces": %d, "q_pieces": %d, "held": %d})", d,
             shape.consumers, shape.stages, shape.q_stages, shape.keys / piece_rows(d, shape),
             rows_of(shape) / piece_rows(d, shape), shape.pieces);
  }
}

void print_decode() {
  List list("decode");
  for (const int d : {64, kMostDecodeDim}) {
    list.add(R"({"d": %d, "warps": %d, "tile_warps": %d, "stages": %d, "full_barriers": %d})", d, kDecodeWarps,
             decode_tile_warps(d), kDecodeStages, kDecodeFullBarriers);
  }
}

void print_backward() {
  List list("backward");
  const auto add = [&](int d, Share share) {
    const BackwardShape shape = backward_shape(d, share);
    list.add(
        R"({"d": %d, "share": "%s", "blocks": %d, "consumers": %d, "stages": %d, "d_o_stages": %d, "readers": %d, )"
        R"("bulk": %d})",
        d, name_of(share), cluster_blocks(shape), kBackwardConsumers, stages_of(shape), d_o_stages_of(shape),
        sharers_of(shape), int{reduces_in_bulk(shape)});
  };
  for (const int d : kBackwardDims) {
    for (const bool deterministic : {false, true}) {
      const BackwardFacts few{
          .d = d, .heads = 1, .max_seqlen_k = 64, .multiprocessors = 132, .deterministic = deterministic};
      add(d, backward_config(few).shape.share);
    }
  }
}

void print_backward_fp32() {
  List list("backward_fp32");
  for (const int d : {64, kMostFp32BackwardDim}) {
    const BackwardShape shape = fp32_backward_config(d).shape;
    list.add(R"({"d": %d, "consumers": %d, "stages": %d})", d, kBackwardConsumers, stages_of(shape));
  }
}

}  // namespace
}  // namespace strobe::cuda::sm90

int main() {
  using namespace strobe::cuda::sm90;
  print_forward();
  print_forward_fp32();
  print_decode();
  print_backward();
  print_backward_fp32();
  std::printf("}\n");
}
