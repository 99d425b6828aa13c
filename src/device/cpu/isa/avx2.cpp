// Matmuls for AVX2 with FMA: 6-row tiles.
#include "core/simd_panel.h"
#include "device/cpu/isa/double_product.h"

namespace strobe::blas {
extern const Panels kPanelsAvx2;
const Panels kPanelsAvx2 = {"avx2", cpu::PanelProduct<6>::kColumns, cpu::PanelProduct<6>::multiply, multiply_double};
}  // namespace strobe::blas
