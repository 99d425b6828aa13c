// The clock of every measurement on the host.
#pragma once

#include "core/clock.h"
