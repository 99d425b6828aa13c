// The driver makes the maps.
#include "attention/cuda/sm90/tensor_map.h"

#include <fmt/format.h>

#include "attention/cuda/in_vectors.h"
#include "device/cuda/driver.h"

namespace strobe::cuda::sm90 {

namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 31;         // of a dimension: boxes are named by signed 32 bits
constexpr std::int64_t kMostStrideBytes = std::int64_t{1} << 40;  // between elements of one

}  // namespace

std::string map_refusal(const char* name, const ConstView& view) {
  if (!in_vectors(view)) return fmt::format("{} has rows that are not whole multiples of 16 bytes", name);
  for (const std::int64_t size : view.shape) {
    if (size < 1) return fmt::format("{} has no elements", name);
    if (size >= kMostSize) return fmt::format("{} has {} elements along a dimension; fewer than 2^31 do", name, size);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t stride = view.stride[i];
    if (stride == 0 && view.shape[i] > 1) return fmt::format("{} is expanded (stride 0)", name);
    if (stride < 0 || stride * 2 >= kMostStrideBytes) {
      return fmt::format("{} has a stride of {} elements; 0 to 2^39 - 1 do", name, stride);
    }
  }
  return {};
}

CUtensorMap tensor_map(const Tensor& tensor, const TensorSizes& sizes, int box_rows) {
  static const auto encode = driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  const auto bytes = [](std::int64_t stride) { return static_cast<cuuint64_t>(stride == 0 ? 16 : stride * 2); };
  const cuuint64_t size[4] = {static_cast<cuuint64_t>(sizes.columns), static_cast<cuuint64_t>(sizes.rows),
                              static_cast<cuuint64_t>(sizes.heads), static_cast<cuuint64_t>(sizes.batch)};
  const cuuint64_t stride[3] = {bytes(tensor.row), bytes(tensor.head), bytes(tensor.batch)};
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1}, step[4] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, tensor.data, size, stride, box, step,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return map;
  throw Error(ErrorCode::runtime,
              fmt::format("cuda: no tensor map of [{}, {}, {}, {}] with strides {}, {}, {}: driver error {}",
                          sizes.batch, sizes.heads, sizes.rows, sizes.columns, tensor.batch, tensor.head, tensor.row,
                          static_cast<int>(result)));
}

}  // namespace strobe::cuda::sm90
