// Command-line flags of a subcommand. One table parses them, suggests corrections and prints the help.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strobe {

enum class Takes { nothing, value, optional_value };

struct Option {
  std::string name;                    // without the two dashes, spelled as the help shows it: "batch_size"
  std::vector<std::string> aliases{};  // other names; an alias of one letter also works with one dash: -n
  Takes takes = Takes::value;
  std::string placeholder{};  // shown for the value in the help: "N", "on|off|both"
  std::string help{};         // empty: internal flag, hidden from --help
  std::function<void(std::string_view flag, std::string_view value)> apply{};  // value is "" if none was given
  std::vector<std::string> words{};  // optional_value: the next argument is the value only if it is one of
                                     // these, or a comma-separated list of these
  std::string group{};               // heading in the help, see OptionTable::begin_group
};

// Returns the other names of a flag, which every command accepts for it: lower case, with dashes, without the leading
// dashes. Empty if it has none.
//   flag_synonyms("dtype") returns {"precision"}
std::vector<std::string_view> flag_synonyms(std::string_view flag);

// Flags are also accepted under their synonyms. Dash and underscore are equal, as are `--flag value` and
// `--flag=value`. -h and --help are always valid; --quiet and --color are valid unless the table has a subject.
class OptionTable {
 public:
  explicit OptionTable(std::string subject = {}) : subject_(std::move(subject)) {}

  using Apply = std::function<void(std::string_view flag, std::string_view value)>;
  void add(Option option);

  // Adds a flag with a value.
  void add(std::string name, std::string placeholder, std::string help, Apply apply,
           std::vector<std::string> aliases = {});

  // Adds a flag without a value, which sets `target` to true.
  void add_flag(std::string name, std::string help, bool& target);
  const std::vector<Option>& options() const { return options_; }

  // Flags that are added later, and have no group of their own, are listed under this heading.
  void begin_group(std::string name) { group_ = std::move(name); }

  // Passes words that are not flags, such as files, to `apply`. Without this call such words are errors.
  void take_words(std::function<void(std::string_view word)> apply) { take_word_ = std::move(apply); }

  // Sets a function that runs after the last argument was applied. It throws if flags or words contradict each other.
  void check_with(std::function<void()> check) { check_ = std::move(check); }

  enum class Outcome { run, help };
  enum class Again { refused, replaces };  // action if a flag is given twice, also under two names
  // Throws Error(invalid_argument) for an unknown flag (with the nearest names), a missing value or an unexpected word.
  // With STROBE_CHECK_FLAGS=1 it throws FlagsAccepted (app/program.h) instead of returning Outcome::run.
  Outcome parse(std::span<const std::string_view> arguments, Again again = Again::refused) const;

  // Returns the arguments without `flag`, under any of its names, and without its value.
  std::vector<std::string_view> without(std::span<const std::string_view> arguments, std::string_view flag) const;

  std::string help() const;  // one entry per flag, in 80 columns

 private:
  const Option* find(std::string_view flag) const;  // also by a synonym
  bool names_flag(std::string_view word) const;     // "--NAME" or "--NAME=VALUE" of a known flag
  [[noreturn]] void refuse_unknown(std::string_view flag) const;

  std::string group_;
  std::string subject_;  // used in errors instead of a command: "--x: not a flag of SUBJECT"
  std::vector<Option> options_;
  std::function<void(std::string_view word)> take_word_;
  std::function<void()> check_;
};

// Applies --quiet and --color before a command; returns the number of their words.
std::size_t apply_common_flags(std::span<const std::string_view> arguments);

// Accepts --name, --name=on and --name=off.
Option make_switch(std::string name, std::string help, bool& target);

// Returns the candidates close to a misspelled word, at most three, nearest first; all candidates if none is close.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

// Parsers of values. Each throws Error(invalid_argument) with the flag, the value and the valid range.
std::int64_t parse_integer(std::string_view flag, std::string_view value, std::int64_t least, std::int64_t most);
double parse_number(std::string_view flag, std::string_view value, double least, double below);  // in [least, below)
double parse_seconds(std::string_view flag, std::string_view value);

// Accepts any text except an empty one, which usually comes from an unset variable in a script.
std::string parse_text(std::string_view flag, std::string_view value);
std::int64_t parse_bytes(std::string_view flag, std::string_view value);  // "24G", "512M", "1000000"
std::string parse_word(std::string_view flag, std::string_view value, const std::vector<std::string>& valid);
[[noreturn]] void refuse_repeat(std::string_view flag, std::string_view value, std::string_view item);
std::vector<std::string> split(std::string_view text, char separator);

// Return an Option::apply that stores the flag's value in `target`, an object or an optional. `words` are the valid
// values; `of` converts a word to the target's type.
template <class Target, class Parse>
auto into(Target& target, Parse parse) {
  return [&target, parse](std::string_view flag, std::string_view value) { target = parse(flag, value); };
}
template <class T>
auto integer_into(T& target, std::int64_t least, std::int64_t most) {
  return [&target, least, most](auto flag, auto value) {
    target = static_cast<T>(parse_integer(flag, value, least, most));
  };
}
template <class T>
auto integer_into(std::optional<T>& target, std::int64_t least, std::int64_t most) {
  return [&target, least, most](auto flag, auto value) {
    target = static_cast<T>(parse_integer(flag, value, least, most));
  };
}
template <class Target>
auto number_into(Target& target, double least, double below) {
  return [&target, least, below](auto flag, auto value) { target = parse_number(flag, value, least, below); };
}
template <class Target, class Of = std::identity>
auto word_into(Target& target, std::vector<std::string> words, Of of = {}) {
  return
      [&target, words = std::move(words), of](auto flag, auto value) { target = of(parse_word(flag, value, words)); };
}

// Parses a comma-separated list; parse(flag, item) parses each item. Throws Error(invalid_argument) if two items are
// equal.
template <class Parse>
auto parse_list(std::string_view flag, std::string_view value, Parse parse) {
  std::vector<decltype(parse(flag, value))> items;
  for (const std::string& word : split(value, ',')) {
    auto item = parse(flag, std::string_view(word));
    if (std::find(items.begin(), items.end(), item) != items.end()) refuse_repeat(flag, value, word);
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace strobe
