/* Version of these headers. strobe_version() in strobe.h returns the version of the linked library. */
#pragma once

#define STROBE_VERSION_MAJOR 0
#define STROBE_VERSION_MINOR 1
#define STROBE_VERSION_PATCH 0
#define STROBE_VERSION_STRING "0.1.0"
