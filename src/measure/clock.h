// Includes the clock that all measurements on the host use.
#pragma once

#include "core/clock.h"
