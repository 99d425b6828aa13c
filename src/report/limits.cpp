// Implements parse_limits(), the parser of limits files.
#include "report/limits.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>
#include <utility>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::report {

const char* const kLimitsFormat =
    "limits, a file of lines:\n"
    "  # TEXT             comment\n"
    "  about TEXT         description\n"
    "  impl NAME          implementation of the limits below; default all\n"
    "  cells WORD...      cells of the limits below: b2 h4/2 s100x37 d64 e256 bf16\n"
    "                     causal NAME NAME=VALUE, with comma lists. NAME is a key of\n"
    "                     the row's config; without VALUE it must be on. No WORD: all\n"
    "  require HOW MEASURE [of PASS,...] OP NUMBER [or MEASURE OP NUMBER]...\n"
    "  show MEASURE [of PASS,...]\n"
    "HOW: each, N% (of the values) or geomean. PASS: forward, backward, total, step.\n"
    "OP: >=, >, <=, <. MEASURE:\n"
    "  ms, peak_mb        time in ms, peak memory in MiB\n"
    "  speedup:IMPL       time of IMPL in the same run / time of the cell\n"
    "  memory:IMPL        peak memory of the cell / peak memory of IMPL\n"
    "  share:product      FLOP/s / measured matmul rate\n"
    "  share:copy         bytes/s / measured copy rate\n"
    "  share:plain        FLOP/s / FLOP/s of the same cell without window, lengths,\n"
    "                     grouped heads and options\n"
    "  change:low|high    an end of the 95 % interval of B / A; with one file, of\n"
    "                     launches 2, 4, ... / launches 1, 3, ...\n"
    "IMPL may be a list, A,B,...: the best of those that ran counts. A limit without\n"
    "a value is missed, unless IMPL ran out of memory.\n";

namespace {

struct MeasureName {
  const char* text;
  Measure measure;
  bool has_reference = false;
};
constexpr MeasureName kMeasures[] = {{"ms", Measure::milliseconds},
                                     {"speedup", Measure::speedup, true},
                                     {"share:product", Measure::share_of_matmul_rate},
                                     {"share:copy", Measure::share_of_copy},
                                     {"share:plain", Measure::share_of_plain},
                                     {"peak_mb", Measure::peak_mb},
                                     {"memory", Measure::memory, true},
                                     {"change:low", Measure::change_low},
                                     {"change:high", Measure::change_high}};

using Words = std::span<const std::string>;

[[noreturn]] void refuse_limit(const std::string& word, const char* valid) {
  fail(ErrorCode::invalid_argument, "\"{}\"; valid: {}", printable(word), valid);
}

// Removes and returns the next word of `words`.
std::string next_word(Words& words, const char* valid) {
  if (words.empty()) fail(ErrorCode::invalid_argument, "ends too early; valid next: {}", valid);
  const std::string word = words.front();
  words = words.subspan(1);
  return word;
}

bool take_word(Words& words, std::string_view word) {
  if (words.empty() || words.front() != word) return false;
  words = words.subspan(1);
  return true;
}

double number_in(std::string_view text, const char* valid) {
  double number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size() || !(number > 0 && number < 1e12)) {
    refuse_limit(std::string(text), valid);
  }
  return number;
}

Bound next_measure(Words& words) {
  constexpr const char* kValid =
      "ms, speedup:IMPL, share:product, share:copy, share:plain, peak_mb, memory:IMPL, change:low, change:high";
  const std::string word = next_word(words, kValid);
  for (const MeasureName& name : kMeasures) {
    const std::string_view text = name.text;
    if (!name.has_reference && word == text) return {.measure = name.measure, .reference = {}};
    if (name.has_reference && word.starts_with(text) && word.size() > text.size() + 1 && word[text.size()] == ':') {
      return {.measure = name.measure, .reference = word.substr(text.size() + 1)};
    }
  }
  refuse_limit(word, kValid);
}

void take_relation(Words& words, Bound& bound) {
  constexpr const char* kValid = ">=, >, <=, <";
  const std::string word = next_word(words, kValid);
  if (word != ">=" && word != ">" && word != "<=" && word != "<") refuse_limit(word, kValid);
  bound.is_least = word[0] == '>';
  bound.is_strict = word.size() == 1;
  constexpr const char* kNumber = "a number above 0";
  bound.limit = number_in(next_word(words, kNumber), kNumber);
}

std::vector<Pass> passes_of(const std::string& list) {
  constexpr Pass kAll[] = {Pass::forward, Pass::backward, Pass::total, Pass::step};
  std::vector<Pass> passes;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) {
    const auto found = std::ranges::find_if(kAll, [&](Pass pass) { return word == name_of(pass); });
    if (found == std::end(kAll)) refuse_limit(word, "forward, backward, total, step");
    passes.push_back(*found);
  }
  return passes;
}

void take_how(Words& words, Requirement& requirement) {
  constexpr const char* kValid = "each, geomean, or a percentage such as 90%";
  const std::string how = next_word(words, kValid);
  if (how == "geomean") {
    requirement.kind = Requirement::Kind::mean;
  } else if (how != "each") {
    if (!how.ends_with('%')) refuse_limit(how, kValid);
    requirement.share = number_in(std::string_view(how).substr(0, how.size() - 1), kValid) / 100;
    if (requirement.share > 1) refuse_limit(how, kValid);
  }
}

// Parses the words after "require" or "show".
void parse_requirement(Words words, bool is_limit, Requirement& requirement) {
  requirement.kind = is_limit ? Requirement::Kind::each : Requirement::Kind::shown;
  if (is_limit) take_how(words, requirement);
  Bound bound = next_measure(words);
  if (take_word(words, "of")) requirement.passes = passes_of(next_word(words, "forward, backward, total, step"));
  while (is_limit) {
    take_relation(words, bound);
    requirement.bounds.push_back(bound);
    if (words.empty()) return;
    if (!take_word(words, "or")) refuse_limit(words.front(), "or, and another limit");
    if (requirement.kind == Requirement::Kind::mean) refuse_limit("or", "one limit of a geometric mean");
    bound = next_measure(words);
  }
  requirement.bounds.push_back(bound);
  if (!words.empty()) refuse_limit(words.front(), "the end of the line");
}

// State of the parser. limits: the requirements so far. now: cells and implementation that apply to the next ones.
struct LimitsReader {
  Limits limits;
  Requirement now;

  void take(const std::string& key, Words words, const std::string& rest) {
    if (key == "about") {
      limits.about = rest;
    } else if (key == "impl") {
      now.implementation = next_word(words, "the name of an implementation");
      if (!words.empty()) refuse_limit(words.front(), "one implementation");
    } else if (key == "cells") {
      now.cells = case_words(rest);
      now.cells_text = rest;
    } else if (key == "require" || key == "show") {
      Requirement& added = limits.requirements.emplace_back(now);
      added.text = rest;
      parse_requirement(words, key == "require", added);
    } else {
      refuse_limit(key, "about, impl, cells, require, show, #");
    }
  }
};

}  // namespace

Limits parse_limits(const std::string& name, std::string_view text) {
  LimitsReader reader;
  int number = 0;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream stream(line.substr(0, line.find('#')));
    const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    const Words rest = Words(words).subspan(1);
    try {
      reader.take(words[0], rest, fmt::format("{}", fmt::join(rest, " ")));
    } catch (const Error& error) {
      fail(ErrorCode::invalid_argument, "{}: line {}: {}", printable(name), number, error.what());
    }
  }
  if (reader.limits.requirements.empty()) {
    fail(ErrorCode::invalid_argument, "{}: must have a \"require\" or \"show\" line", printable(name));
  }
  return std::move(reader.limits);
}

bool needs_comparison(const Limits& limits) {
  return std::ranges::any_of(limits.requirements, [](const Requirement& one) {
    return std::ranges::any_of(one.bounds, [](const Bound& bound) {
      return bound.measure == Measure::change_low || bound.measure == Measure::change_high;
    });
  });
}

}  // namespace strobe::report
