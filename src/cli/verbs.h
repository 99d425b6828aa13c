// The commands of strobe, one function each, called by main.cpp. Each returns the exit code.
#pragma once

#include <string_view>

#include "app/program.h"

namespace strobe::cli {

int run_bench(Arguments arguments);
int run_explain(Arguments arguments);
int run_env(Arguments arguments);
int run_sweep(Arguments arguments);
int run_compare(Arguments arguments);
int run_report(Arguments arguments);
int run_plan(Arguments arguments);
int run_comm(Arguments arguments);
// `check_command` throws Error(invalid_argument) unless strobe has a command of that name.
int run_launch(Arguments arguments, void (*check_command)(std::string_view name));

int run_solve(Arguments arguments);
int run_ladder(Arguments arguments);
int run_cases(Arguments arguments);
int run_cases_gen(Arguments arguments);
int run_cases_check(Arguments arguments);
int run_cases_judge(Arguments arguments);

int run_precision(Arguments arguments);
int run_lm(Arguments arguments);
int run_lm_bench(Arguments arguments);
int run_lm_memory(Arguments arguments);
int run_lm_profile(Arguments arguments);
int run_lm_train(Arguments arguments);
int run_lm_sample(Arguments arguments);

int run_completion(Arguments arguments);

// On a rank of `strobe launch`, bad input is reported to the launcher, which prints it once for all ranks. Call
// take_launchers_file() first: it reads the path of the launcher's error file from the environment variable and unsets
// the variable. report_to_launcher() returns false if there is no launcher; the caller then prints the line.
void take_launchers_file();
bool report_to_launcher(std::string_view line);

}  // namespace strobe::cli
