// What long commands draw on a terminal while they work.
#pragma once

#include <cstddef>
#include <string>

namespace strobe {

// "[######------] 10/20"
std::string bar_text(std::size_t done, std::size_t total);

// "2 min 5 s"
std::string duration_text(double seconds);

// show_progress, cut to the terminal's width.
void show_fitting_progress(std::string text);

}  // namespace strobe
