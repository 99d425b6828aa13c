// Matmuls for AVX2 with FMA: 6-row tiles.
#include "core/simd_panel.h"
#include "device/cpu/isa/double_matmul.h"

namespace strobe::blas {
extern const Panels kPanelsAvx2;
const Panels kPanelsAvx2 = {"avx2", cpu::PanelMatmul<6>::kColumns, cpu::PanelMatmul<6>::matmul, multiply_double};
}  // namespace strobe::blas
