#include "ops/place.h"

#include "core/fail.h"

namespace strobe::ops {

void expect_cpu(const Place& place, const char* operation) {
  if (place.device == Device::cpu) return;
  fail(ErrorCode::unsupported, "ops: {} has no CUDA implementation yet; valid: the CPU", operation);
}

}  // namespace strobe::ops
