// Implements flag tables and the parsers of flag values.
#include "app/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "app/help.h"
#include "app/program.h"
#include "app/terminal.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe {
namespace {

std::string normal(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

// Formats a limit of a range. Writes a small limit without an exponent: "0.000004".
std::string limit_text(double limit) {
  char text[32];
  if (limit < 1e-9 || limit >= 1) return fmt::format("{}", limit);
  return {text, std::to_chars(text, text + sizeof(text), limit, std::chars_format::fixed).ptr};
}

// Returns "; did you mean on?" for the value "yes" if "on" is valid.
std::string probably_meant(std::string_view value, const std::vector<std::string>& valid) {
  static constexpr std::pair<std::string_view, std::string_view> kMeanings[] = {
      {"yes", "on"}, {"true", "on"}, {"1", "on"}, {"no", "off"}, {"false", "off"}, {"0", "off"},
  };
  for (const auto& [word, meaning] : kMeanings) {
    const bool is_valid = std::find(valid.begin(), valid.end(), meaning) != valid.end();
    if (normal(value) == word && is_valid) return fmt::format("; did you mean {}?", meaning);
  }
  return "";
}

// Returns true if the word after the flag is its value.
bool takes_word(const Option& option, std::string_view next) {
  if (option.takes != Takes::optional_value) return option.takes == Takes::value;
  const std::vector<std::string> items = split(next, ',');
  return std::all_of(items.begin(), items.end(), [&](const std::string& item) {
    return std::find(option.words.begin(), option.words.end(), normal(item)) != option.words.end();
  });
}

// Flags of every command. They are not listed with a command's own flags.
const std::vector<Option>& common_options() {
  static const std::vector<Option> kOptions = {
      {.name = "quiet", .takes = Takes::nothing, .apply = [](auto, auto) { set_quiet(true); }},
      {.name = "color",
       .aliases = {"colour"},
       .placeholder = "auto|always|never",
       .apply =
           [](auto flag, auto value) {
             const std::string word = parse_word(flag, value, {"auto", "always", "never"});
             set_color(word == "auto" ? Color::automatic : word == "always" ? Color::always : Color::never);
           }},
  };
  return kOptions;
}

// Groups of flags with the same meaning.
const std::vector<std::vector<std::string_view>>& flag_groups() {
  static const std::vector<std::vector<std::string_view>> kGroups = {
      {"batch-size", "batch"},
      {"seq-len", "context", "seq", "sequence-length"},
      {"num-heads", "heads"},
      {"num-kv-heads", "kv-heads"},
      {"emb-dim", "d-model", "emb"},
      {"dtype", "precision"},
      {"impl", "attention", "implementation"},
      {"output", "out", "json"},
  };
  return kGroups;
}

const Option* find_in(const std::vector<Option>& options, std::string_view wanted) {
  for (const Option& option : options) {
    if (normal(option.name) == wanted) return &option;
    for (const std::string& alias : option.aliases) {
      if (normal(alias) == wanted) return &option;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<std::string_view> flag_synonyms(std::string_view flag) {
  for (std::vector<std::string_view> names : flag_groups()) {
    if (std::erase(names, flag) > 0) return names;
  }
  return {};
}

std::size_t apply_common_flags(std::span<const std::string_view> arguments) {
  std::size_t count = 0;
  while (count < arguments.size() && arguments[count].starts_with("--")) {
    const std::string_view word = arguments[count], shown = word.substr(0, word.find('='));
    const Option* const option = find_in(common_options(), normal(shown.substr(2)));
    if (!option) break;
    const bool has_equals = shown.size() < word.size(), takes_next = option->takes == Takes::value && !has_equals;
    if (takes_next && count + 1 == arguments.size()) break;
    option->apply(shown, takes_next ? arguments[count + 1] : has_equals ? word.substr(shown.size() + 1) : "");
    count += takes_next ? 2 : 1;
  }
  return count;
}

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::vector<std::pair<std::size_t, std::string>> ranked;
  const std::string wanted = normal(word);
  for (const std::string& candidate : candidates) {
    const std::string spelled = normal(candidate);
    std::size_t distance = edit_distance(wanted, spelled);
    if (wanted.size() >= 3 && spelled.starts_with(wanted)) distance = 1;     // `word` is a prefix of a valid name
    const bool shares = distance < std::max(wanted.size(), spelled.size());  // at least one letter in common
    if (shares && distance <= std::max<std::size_t>(2, wanted.size() / 3)) ranked.emplace_back(distance, candidate);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (ranked.size() > 3) ranked.resize(3);
  std::vector<std::string> near;
  for (auto& [distance, candidate] : ranked) near.push_back(std::move(candidate));
  return near.empty() ? candidates : near;
}

void OptionTable::add(std::string name, std::string placeholder, std::string help, Apply apply,
                      std::vector<std::string> aliases) {
  add({.name = std::move(name),
       .aliases = std::move(aliases),
       .placeholder = std::move(placeholder),
       .help = std::move(help),
       .apply = std::move(apply)});
}

void OptionTable::add_flag(std::string name, std::string help, bool& target) {
  add({.name = std::move(name), .takes = Takes::nothing, .help = std::move(help), .apply = [&target](auto, auto) {
         target = true;
       }});
}

void OptionTable::add(Option option) {
  if (option.group.empty()) option.group = group_;
  options_.push_back(std::move(option));
}

const Option* OptionTable::find(std::string_view flag) const {
  const std::string wanted = normal(flag);
  if (const Option* option = find_in(options_, wanted)) return option;
  for (const std::string_view synonym : flag_synonyms(wanted)) {
    const Option* option = find_in(options_, synonym);
    if (option && option->takes == Takes::value) return option;
  }
  return subject_.empty() ? find_in(common_options(), wanted) : nullptr;
}

bool OptionTable::names_flag(std::string_view word) const {
  return word.starts_with("--") && find(word.substr(2, word.find('=') - 2));
}

// Hidden flags are not suggested.
void OptionTable::refuse_unknown(std::string_view flag) const {
  std::vector<std::string> names;
  for (const Option& option : options_) {
    if (option.help.empty()) continue;
    names.push_back("--" + option.name);
    if (!subject_.empty()) continue;
    for (const std::string_view synonym : flag_synonyms(normal(option.name))) {
      names.push_back("--" + std::string(synonym));
    }
  }
  if (subject_.empty()) {
    for (const Option& option : common_options()) names.push_back("--" + option.name);
  }
  if (names.empty()) names.emplace_back("--help");
  const std::string word = "--" + std::string(flag);
  const std::vector<std::string> near = nearest(word, names);
  const bool is_near = near.size() < names.size();
  if (!subject_.empty()) {
    fail(ErrorCode::invalid_argument, "{}: not a flag of {}; {}: {}", printable(word), subject_,
         is_near ? "nearest" : "valid", fmt::join(near, ", "));
  }
  const std::string list = current_command().empty() ? "--help" : current_command() + " --help";
  fail(ErrorCode::invalid_argument, "{}: unknown flag; {}all flags: {}", printable(word),
       is_near ? fmt::format("nearest: {}; ", fmt::join(near, ", ")) : "", list);
}

std::vector<std::string_view> OptionTable::without(std::span<const std::string_view> arguments,
                                                   std::string_view flag) const {
  const Option* const dropped = find(flag);
  std::vector<std::string_view> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i], shown = word.substr(0, word.find('='));
    const bool is_flag = shown.starts_with("-") && find(shown.substr(shown.starts_with("--") ? 2 : 1)) == dropped;
    if (!is_flag) {
      kept.push_back(word);
    } else if (shown.size() == word.size() && i + 1 < arguments.size() && takes_word(*dropped, arguments[i + 1])) {
      ++i;
    }
  }
  return kept;
}

OptionTable::Outcome OptionTable::parse(std::span<const std::string_view> arguments, Again again) const {
  struct Given {
    const Option* option;
    std::string_view shown, value;
  };
  std::vector<Given> given;
  const auto apply = [&](const Option& option, std::string_view shown, std::string_view value) {
    for (const Given& before : given) {
      if (before.option != &option || again == Again::replaces) continue;
      const std::string values =
          before.value.empty() && value.empty()
              ? ""
              : fmt::format(", with {} and {}", printable_value(before.value), printable_value(value));
      fail(ErrorCode::invalid_argument, "{}{}: given twice{}; valid: once", shown,
           before.shown == shown ? "" : fmt::format(", the same as {}", before.shown), values);
    }
    given.push_back({&option, shown, value});
    option.apply(shown, value);
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == "-h" || word == "--help") return Outcome::help;
    const bool is_short = word.size() == 2 && word[0] == '-' && find(word.substr(1));
    if (take_word_ && !word.starts_with("--") && !is_short) {
      take_word_(word);
      continue;
    }
    if (!is_short && (!word.starts_with("--") || word.size() == 2)) {
      if (!given.empty() && given.back().option->takes == Takes::optional_value && given.back().value.empty()) {
        // The word may be meant as this flag's value. If that value is invalid, its error helps more than the error
        // below.
        given.back().option->apply(given.back().shown, word);
      }
      fail(ErrorCode::invalid_argument, "\"{}\": not a flag; flags have the form --NAME (see --help)", printable(word));
    }
    const std::size_t equals = word.find('=');
    const bool has_equals = equals != std::string_view::npos;
    const std::string_view shown = word.substr(0, equals);  // errors name the flag as it was written
    const std::string_view flag = shown.substr(is_short ? 1 : 2);
    const Option* option = find(flag);
    if (!option) refuse_unknown(flag);
    if (has_equals) {
      if (option->takes == Takes::nothing) {
        fail(ErrorCode::invalid_argument, "{}: takes no value, but \"{}\" was given", shown,
             printable(word.substr(equals + 1)));
      }
      apply(*option, shown, word.substr(equals + 1));
      continue;
    }
    const bool has_next = i + 1 < arguments.size();
    const bool takes_next = takes_word(*option, has_next ? arguments[i + 1] : std::string_view());
    if (takes_next && !has_next) {
      fail(ErrorCode::invalid_argument, "{}: needs a value ({})", shown, option->placeholder);
    }
    if (option->takes == Takes::value && names_flag(arguments[i + 1])) {
      fail(ErrorCode::invalid_argument, "{}: needs a value ({}), but the flag {} follows", shown, option->placeholder,
           arguments[i + 1]);
    }
    apply(*option, shown, takes_next ? arguments[++i] : std::string_view());
  }
  if (check_) check_();
  if (only_checks_flags()) throw FlagsAccepted();
  return Outcome::run;
}

std::string OptionTable::help() const {
  constexpr std::size_t kWidestColumn = 28;
  struct Entry {
    std::string group, head, text;
  };
  std::vector<Entry> entries;
  std::vector<std::string> groups;  // in order of their first flags
  std::size_t column = 0;
  for (const Option& option : options_) {
    if (option.help.empty()) continue;
    std::string head = "--" + option.name, text = option.help;
    if (option.takes == Takes::value) head += " " + option.placeholder;
    if (option.takes == Takes::optional_value) head += "[=" + option.placeholder + "]";
    if (!option.aliases.empty()) text += fmt::format(" (also --{})", fmt::join(option.aliases, ", --"));
    column = std::clamp(head.size() + 4, column, kWidestColumn);
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
    entries.push_back({option.group, std::move(head), std::move(text)});
  }
  std::string text;
  for (const std::string& group : groups) {
    if (!group.empty()) text += (text.empty() ? "" : "\n") + group + ":\n";
    for (const Entry& entry : entries) {
      if (entry.group == group) text += help_entry(entry.head, entry.text, column);
    }
  }
  if (!entries.empty()) text += "\nIn flag names - and _ are the same. --flag=value is the same as --flag value.\n";
  return text + (entries.empty() ? "\n" : "") +
         "All commands have --quiet (no notes, no progress) and --color auto|always|never.\n";
}

Option make_switch(std::string name, std::string help, bool& target) {
  return {.name = std::move(name),
          .takes = Takes::optional_value,
          .placeholder = "on|off",
          .help = std::move(help),
          .apply =
              [&target](auto flag, auto value) {
                target = value.empty() || parse_word(flag, value, {"on", "off"}) == "on";
              },
          .words = {"on", "off"}};
}

std::int64_t parse_integer(std::string_view flag, std::string_view value, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || value.empty() || number < least || number > most) {
    const std::string range = most == std::numeric_limits<std::int64_t>::max() ? fmt::format("{} or more", least)
                                                                               : fmt::format("{}..{}", least, most);
    fail(ErrorCode::invalid_argument, "{} {}: not a whole number in the valid range {}", flag, printable_value(value),
         range);
  }
  return number;
}

std::string parse_text(std::string_view flag, std::string_view value) {
  if (value.empty()) fail(ErrorCode::invalid_argument, "{}: the value is empty", flag);
  return std::string(value);
}

double parse_number(std::string_view flag, std::string_view value, double least, double below) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || !(number >= least && number < below)) {
    fail(ErrorCode::invalid_argument, "{} {}: not a number in the valid range: at least {}, below {}", flag,
         printable_value(value), limit_text(least), below);
  }
  return number;
}

double parse_seconds(std::string_view flag, std::string_view value) {
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size() || !(number > 0) || !std::isfinite(number)) {
    fail(ErrorCode::invalid_argument, "{} {}: not a number of seconds above 0", flag, printable_value(value));
  }
  return number;
}

std::int64_t parse_bytes(std::string_view flag, std::string_view value) {
  const auto refuse = [&] {
    fail(ErrorCode::invalid_argument, "{} {}: not a size; valid: bytes, or a number with K, M, G or T (powers of 1024)",
         flag, printable_value(value));
  };
  double number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || !(number > 0) || !std::isfinite(number)) refuse();
  std::string unit = normal(value.substr(static_cast<std::size_t>(end - value.data())));
  if (unit.ends_with("ib")) unit.resize(unit.size() - 2);
  if (unit.ends_with('b')) unit.resize(unit.size() - 1);
  static const std::vector<std::string> kUnits = {"", "k", "m", "g", "t"};
  const auto found = std::find(kUnits.begin(), kUnits.end(), unit);
  if (found == kUnits.end()) refuse();
  const double bytes = number * std::pow(1024.0, static_cast<double>(found - kUnits.begin()));
  if (bytes < 1 || bytes > 9e18) refuse();
  return static_cast<std::int64_t>(bytes);
}

std::string parse_word(std::string_view flag, std::string_view value, const std::vector<std::string>& valid) {
  for (const std::string& word : valid) {
    if (normal(word) == normal(value)) return word;
  }
  fail(ErrorCode::invalid_argument, "{} {}: valid: {}{}", flag, printable_value(value), fmt::join(valid, ", "),
       probably_meant(value, valid));
}

void refuse_repeat(std::string_view flag, std::string_view value, std::string_view item) {
  fail(ErrorCode::invalid_argument, "{} {}: {} is listed twice; valid: each once", flag, printable(value),
       printable(item));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace strobe
