// Matmuls for the baseline architecture: 6-row tiles.
#include "core/simd_panel.h"
#include "device/cpu/isa/double_product.h"

namespace strobe::blas {
extern const Panels kPanelsGeneric;
const Panels kPanelsGeneric = {"generic", cpu::PanelProduct<6>::kColumns, cpu::PanelProduct<6>::multiply,
                               multiply_double};
}  // namespace strobe::blas
