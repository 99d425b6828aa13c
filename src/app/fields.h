// Describes a configuration once, in a table with one field per member: its key in files, its range and its help.
// Flags, JSON, checks and comparisons of the configuration are derived from the table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "app/options.h"
#include "core/fail.h"
#include "core/json.h"

namespace strobe {

struct IntegerRange {
  const char* key;  // in files: "lr_min"; the flag is --lr-min
  std::int64_t least, most;
};

// Values in [least, below).
struct NumberRange {
  const char* key;
  double least, below;
};

// Origin of a value. Errors name its field as in the file, "lr_min", or as a flag, "--lr-min".
enum class Source { file, flag };
std::string shown(std::string_view key, Source source);

// Return the value. Throw Error(invalid_argument) with the field, the value and the valid range; NaN is never valid.
std::int64_t checked(const IntegerRange& range, std::int64_t value, Source source = Source::file);
double checked(const NumberRange& range, double value, Source source = Source::file);

template <class Config>
struct Field {
  std::string key{}, flag{}, placeholder{}, help{};  // the flag is without the two dashes
  std::vector<std::string> aliases{};                // aliases of the flag
  std::vector<std::string> words{};                  // valid values, if the flag may lack its value
  std::function<void(Config&, std::string_view flag, std::string_view value)> parse{};
  std::function<void(Config&, const Json&)> read{};  // throws Error(invalid_argument) if the JSON type is wrong
  std::function<Json(const Config&)> json{};
  std::function<std::string(const Config&)> text{};  // the flag's value
  std::function<void(Config& to, const Config& from)> copy{};
  std::function<void(const Config&, Source)> check = [](const Config&, Source) {};
};

// The fields of a configuration, in the order of its help. Specialised next to the configuration's type.
template <class Config>
std::span<const Field<Config>> fields();

// `member` is a pointer to the member, or a function that returns a reference to it.
template <class Config, class Member>
Field<Config> make_field(std::string key, std::string placeholder, std::string help, Member member) {
  Field<Config> field{.key = std::move(key), .placeholder = std::move(placeholder), .help = std::move(help)};
  field.flag = shown(field.key, Source::flag).substr(2);
  field.copy = [member](Config& to, const Config& from) { std::invoke(member, to) = std::invoke(member, from); };
  return field;
}

template <class Config, class Member>
Field<Config> integer_field(const IntegerRange& range, Member member, std::string help,
                            std::vector<std::string> aliases = {}) {
  using T = std::remove_cvref_t<std::invoke_result_t<Member, Config&>>;
  Field<Config> field = make_field<Config>(range.key, "N", std::move(help), member);
  field.aliases = std::move(aliases);
  field.parse = [range, member](Config& config, std::string_view flag, std::string_view value) {
    std::invoke(member, config) = static_cast<T>(parse_integer(flag, value, range.least, range.most));
  };
  field.read = [member](Config& config, const Json& json) {
    std::invoke(member, config) = static_cast<T>(json.as_integer());
  };
  field.json = [member](const Config& config) { return Json(static_cast<std::int64_t>(std::invoke(member, config))); };
  field.text = [member](const Config& config) { return fmt::format("{}", std::invoke(member, config)); };
  field.check = [range, member](const Config& config, Source source) {
    checked(range, static_cast<std::int64_t>(std::invoke(member, config)), source);
  };
  return field;
}

template <class Config, class Member>
Field<Config> number_field(const NumberRange& range, Member member, std::string help) {
  Field<Config> field = make_field<Config>(range.key, "X", std::move(help), member);
  field.parse = [range, member](Config& config, std::string_view flag, std::string_view value) {
    std::invoke(member, config) = parse_number(flag, value, range.least, range.below);
  };
  field.read = [member](Config& config, const Json& json) { std::invoke(member, config) = json.as_number(); };
  field.json = [member](const Config& config) { return Json(std::invoke(member, config)); };
  field.text = [member](const Config& config) { return fmt::format("{}", std::invoke(member, config)); };
  field.check = [range, member](const Config& config, Source source) {
    checked(range, std::invoke(member, config), source);
  };
  return field;
}

template <class Config, class Member>
Field<Config> switch_field(std::string key, Member member, std::string help) {
  Field<Config> field = make_field<Config>(std::move(key), "on|off", std::move(help), member);
  field.words = {"on", "off"};
  field.parse = [member](Config& config, std::string_view flag, std::string_view value) {
    std::invoke(member, config) = value.empty() || parse_word(flag, value, {"on", "off"}) == "on";
  };
  field.read = [member](Config& config, const Json& json) { std::invoke(member, config) = json.as_bool(); };
  field.json = [member](const Config& config) { return Json(std::invoke(member, config)); };
  field.text = [member](const Config& config) { return std::invoke(member, config) ? "on" : "off"; };
  return field;
}

// `of` converts a word to a value and throws Error(invalid_argument) for an invalid word; `name_of` is its inverse.
template <class Config, class Member, class Of, class NameOf>
Field<Config> word_field(std::string key, std::string placeholder, Member member, std::vector<std::string> words, Of of,
                         NameOf name_of, std::string help) {
  Field<Config> field = make_field<Config>(std::move(key), std::move(placeholder), std::move(help), member);
  field.parse = [member, words, of](Config& config, std::string_view flag, std::string_view value) {
    std::invoke(member, config) = of(parse_word(flag, value, words));
  };
  field.read = [member, of](Config& config, const Json& json) { std::invoke(member, config) = of(json.as_string()); };
  field.json = [member, name_of](const Config& config) { return Json(name_of(std::invoke(member, config))); };
  field.text = [member, name_of](const Config& config) { return std::string(name_of(std::invoke(member, config))); };
  return field;
}

// The values that flags have set, and the keys of their fields.
template <class Config>
struct Given {
  Config values{};
  std::vector<std::string> keys{};

  bool any() const { return !keys.empty(); }
  bool has(std::string_view key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }
  void apply_to(Config& config) const {
    for (const Field<Config>& field : fields<Config>()) {
      if (has(field.key)) field.copy(config, values);
    }
  }
};

template <class Config>
void add_field(OptionTable& table, const Field<Config>& field, Given<Config>& given) {
  table.add({.name = field.flag,
             .aliases = field.aliases,
             .takes = field.words.empty() ? Takes::value : Takes::optional_value,
             .placeholder = field.placeholder,
             .help = field.help,
             .apply =
                 [field, &given](auto flag, auto value) {
                   field.parse(given.values, flag, value);
                   given.keys.push_back(field.key);
                 },
             .words = field.words});
}

}  // namespace strobe
