// Matmuls for AVX-512 F, BW, VL and DQ: 12-row tiles.
#include "core/simd_panel.h"
#include "device/cpu/isa/double_matmul.h"

namespace strobe::blas {
extern const Panels kPanelsAvx512;
const Panels kPanelsAvx512 = {"avx512", cpu::PanelMatmul<12>::kColumns, cpu::PanelMatmul<12>::matmul, multiply_double};
}  // namespace strobe::blas
