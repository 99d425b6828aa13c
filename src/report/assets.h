// Declares the text files that the program embeds: the page templates of page/, the published times of the course's
// ladder, and the chart library. CMakeLists.txt generates the definitions.
#pragma once

namespace strobe::report {

extern const char* const kPageHtml;
extern const char* const kPageStyle;
extern const char* const kPageScript;
extern const char* const kMemoryPage;
extern const char* const kLadderPublished;  // ladder_gtx1080.csv
extern const char* const kChartLibrary;     // "" if the build found none

}  // namespace strobe::report
