// Flags that describe what is measured, shared by `bench`, `explain` and `sweep`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "bench/case.h"

namespace strobe::cli {

struct CaseOptions {
  // The flags of the field table, and the source reports' values of the others (docs/source-report.md). Its lengths are
  // as given, not yet repeated to fill the batch.
  Given<bench::AttentionCase> given{
      .values = {.batch = 32, .heads = 32, .seqlen_q = 1024, .head_dim = 64, .dtype = DType::fp16}};
  std::optional<std::int64_t> emb;
  std::vector<bool> causal{false};  // both values for --causal=both
  std::optional<int> threads;
  std::optional<Device> device;
  std::vector<std::string> implementations{"flash2"};  // canonical names
  bool is_list = false;                                // --impl has several names: the output is a list
  bool names_pytorch = false;                          // --impl names `standard` as the source reports do
};

// Adds the flags of one configuration. The configurations of a sweep or of --cells may differ in these flags.
void add_configuration_options(OptionTable& table, CaseOptions& options);

// Adds the flags of a configuration and the flags that apply to a whole run: implementations, device, threads.
void add_case_options(OptionTable& table, CaseOptions& options);

struct Cases {
  std::vector<bench::AttentionCase> cases;  // one per configuration and value of causal
  std::vector<std::string> notes;           // for the user, for example about scaled defaults
};

// Returns the device as in a heading: "cpu, 2 threads" or "cuda, NVIDIA H200".
std::string place_of(const bench::AttentionCase& one);

// Builds the cases and fills in defaults. Throws Error(invalid_argument) if the heads do not divide the embedding.
Cases cases_of(const CaseOptions& options);

// Throws the library's error if a case is not a valid problem.
void check_problems(const Cases& cases);

// Parses --device: cpu or cuda. Throws Error(unsupported) with the reason if there is no GPU.
Device parse_device(std::string_view flag, std::string_view value);

}  // namespace strobe::cli
