// Matmuls for NEON: 12-row tiles.
#include "core/simd_panel.h"
#include "device/cpu/isa/double_matmul.h"

namespace strobe::blas {
extern const Panels kPanelsNeon;
const Panels kPanelsNeon = {"neon", cpu::PanelMatmul<12>::kColumns, cpu::PanelMatmul<12>::matmul, multiply_double};
}  // namespace strobe::blas
