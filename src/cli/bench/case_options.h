// The flags that describe what is measured: shared by `bench`, `explain` and `sweep`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/options.h"
#include "bench/case.h"

namespace strobe::cli {

struct CaseOptions {
  std::optional<std::int64_t> batch, seq, heads, emb, head_dim, kv_heads, seq_k;
  std::optional<DType> dtype;
  bool tf32 = false;
  bool deterministic = false;
  std::optional<int> threads;
  std::optional<Device> device;
  bench::Cache cache = bench::Cache::cold;
  std::vector<bool> causal{false};  // both values for --causal=both
  Alignment alignment = Alignment::unsaid;
  Window window;
  bench::ScoreOptions scores;         // its lengths stay empty
  std::vector<std::int64_t> lengths;  // as given, to be repeated over the batch
  bench::Passes passes = bench::Passes::both;
  std::vector<std::string> implementations{"flash2"};  // canonical names
  bool is_list = false;                                // --impl named several: the output is a list
};

// What one configuration is made of, and may differ between those of a run.
void add_configuration_options(OptionTable& table, CaseOptions& options);

// Those, and what is the same for all of a run: implementations, device, threads.
void add_case_options(OptionTable& table, CaseOptions& options);

// The part that concerns scores (score_options.cpp), and what they come to for a case of those sizes.
void add_score_options(OptionTable& table, CaseOptions& options);
bench::ScoreOptions score_options_of(const CaseOptions& options, std::int64_t batch, std::int64_t seq,
                                     std::int64_t seq_k);

struct Cases {
  std::vector<bench::Case> cases;  // one for each value of causal
  std::vector<std::string> notes;  // what the reader should know of them: defaults that were scaled
};

// Where a case runs, for a heading: "cpu, 2 threads" or "cuda, NVIDIA H200".
std::string place_of(const bench::Case& one);

// Fills in the defaults. Throws Error(invalid_argument) where heads do not divide.
Cases cases_of(const CaseOptions& options);

// Throws as the library does where a case is no valid problem: before anything is started.
void check_problems(const Cases& cases);

// The flags that describe the case and nothing else, every size named: cases_of makes the same case of them on any
// machine (score_options.cpp).
std::vector<std::string> words_of(const bench::Case& one);

// --device: cpu or cuda; throws Error(unsupported) with the reason where there is no GPU.
Device parse_device(std::string_view flag, std::string_view value);

}  // namespace strobe::cli
