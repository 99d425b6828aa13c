// Generates the problem files of the course's cases from a seed, and their answers with float64 arithmetic.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "solve/cases.h"
#include "solve/problem_file.h"

namespace strobe::solve {

// Sets `values` to floats [first, first + count) of the problem file with this seed. They are uniform in [-3, 3).
void uniform_values(std::uint64_t seed, std::uint64_t first, std::int64_t count, float* values);

std::filesystem::path problem_path(const std::filesystem::path& folder, const TestCase& one);
std::filesystem::path answer_path(const std::filesystem::path& folder, const TestCase& one);
std::filesystem::path list_path(const std::filesystem::path& folder);  // cases.json

enum class Made { now, before };

// Creates the problem and answer file of a case. Does nothing if they exist and cases.json in the folder lists them
// with that size and seed. Lists the case in cases.json last. Throws Error if a file cannot be written. `progress`
// receives the fraction done.
Made make_case(const std::filesystem::path& folder, const TestCase& one, std::uint64_t seed,
               const std::function<void(double done)>& progress = {});

// Throws Error(invalid_argument) if make_case would replace a file that it did not write: a problem file with another
// header or other first values, or a cases.json that is not a list of cases.
void check_not_another(const std::filesystem::path& folder, const TestCase& one, std::uint64_t seed);

// Throws Error(invalid_argument) if the output file is the input, the standard output, or a problem or answer listed in
// the cases.json of its folder.
void check_output_place(const std::string& input, const std::string& output);

// Computes the answers of cases: attention in float64 on all cores, with the output rounded to float32. The computation
// is tiled and several times faster than the library's kernel `reference`. `inputs` is Q, K, V of each batch as in a
// problem file; `outputs` is [batch, N, d].
void float64_forward(const ProblemSize& size, const float* inputs, float* outputs);

}  // namespace strobe::solve
