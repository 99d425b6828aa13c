// Problem files of the cases, generated from a seed, with answers in float64. `strobe cases gen` uses it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "solve/cases.h"
#include "solve/problem_file.h"

namespace strobe::solve {

// Writes elements [first, first + count) of a problem file's floats: uniform in [-3, 3), determined by the seed.
void uniform_values(std::uint64_t seed, std::uint64_t first, std::int64_t count, float* values);

std::filesystem::path problem_path(const std::filesystem::path& folder, const TestCase& one);
std::filesystem::path answer_path(const std::filesystem::path& folder, const TestCase& one);
std::filesystem::path list_path(const std::filesystem::path& folder);  // cases.json

enum class Made { now, before };

// Creates both files of a case, unless cases.json in the folder lists them with that size and seed. cases.json is
// written after the files. Throws Error if they cannot be written.
Made make_case(const std::filesystem::path& folder, const TestCase& one, std::uint64_t seed,
               const std::function<void(double done)>& progress = {});

// Throws Error(invalid_argument) if make_case would replace a file that it did not write. That is a file with the
// case's name that does not begin like the case of that size and seed, or a cases.json that is not a list of cases.
void check_not_another(const std::filesystem::path& folder, const TestCase& one, std::uint64_t seed);

// Throws Error(invalid_argument) if the output would replace the input, or a problem or an answer listed in the
// cases.json of its folder.
void check_output_place(const std::string& input, const std::string& output);

// Computes attention of batches in float64 on all cores and rounds once at the end: the reference answers of cases. It
// is a tiled version of the library's `reference` and several times faster. `inputs` are size.batch times [Q, K, V] as
// in a problem file, `outputs` [batch, N, d].
void float64_forward(const ProblemSize& size, const float* inputs, float* outputs);

}  // namespace strobe::solve
