// Matmuls for the baseline architecture: 6-row tiles.
#include "core/simd_panel.h"
#include "device/cpu/isa/double_matmul.h"

namespace strobe::blas {
extern const Panels kPanelsGeneric;
const Panels kPanelsGeneric = {"generic", cpu::PanelMatmul<6>::kColumns, cpu::PanelMatmul<6>::matmul, multiply_double};
}  // namespace strobe::blas
