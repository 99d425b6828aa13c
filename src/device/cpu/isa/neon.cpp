// Matmuls for NEON: 12-row tiles.
#include "core/simd_panel.h"
#include "device/cpu/isa/double_product.h"

namespace strobe::blas {
extern const Panels kPanelsNeon;
const Panels kPanelsNeon = {"neon", cpu::PanelProduct<12>::kColumns, cpu::PanelProduct<12>::multiply, multiply_double};
}  // namespace strobe::blas
