// Implements tensor_map.h with the driver function cuTensorMapEncodeTiled.
#include "attention/cuda/sm90/tensor_map.h"

#include <fmt/format.h>

#include "device/cuda/driver.h"
#include "strobe/error.h"

namespace strobe::cuda::sm90 {

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
  throw Error(
      ErrorCode::runtime,
      fmt::format("cuda: cannot create a tensor map of [{}, {}, {}, {}] with strides {}, {}, {}: driver error {}",
                  sizes.batch, sizes.heads, sizes.rows, sizes.columns, tensor.batch, tensor.head, tensor.row,
                  static_cast<int>(result)));
}

}  // namespace strobe::cuda::sm90
