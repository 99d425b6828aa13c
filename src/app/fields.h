// Describes a configuration once, in a table with one field per member: its key in files, its range and its help.
// Flags, JSON, checks and comparisons of the configuration are derived from the table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
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
  std::string key{}, placeholder{}, help{};
  std::vector<std::string> aliases{};  // aliases of the flag
  bool is_switch = false;
  std::function<void(Config&, std::string_view flag, std::string_view value)> parse{};
  std::function<void(Config&, const Json&)> read{};  // throws Error(invalid_argument) if the JSON type is wrong
  std::function<Json(const Config&)> json{};
  std::function<std::string(const Config&)> text{};
  std::function<void(Config& to, const Config& from)> copy{};
  std::function<void(const Config&, Source)> check = [](const Config&, Source) {};
};

// The fields of a configuration, in the order of its help. Specialised next to the configuration's type.
template <class Config>
std::span<const Field<Config>> fields();

template <class Config, class T>
Field<Config> make_field(std::string key, std::string placeholder, std::string help, T Config::*member) {
  Field<Config> field{.key = std::move(key), .placeholder = std::move(placeholder), .help = std::move(help)};
  field.copy = [member](Config& to, const Config& from) { to.*member = from.*member; };
  return field;
}

template <class Config, class T>
Field<Config> integer_field(const IntegerRange& range, T Config::*member, std::string help,
                            std::vector<std::string> aliases = {}) {
  Field<Config> field = make_field(range.key, "N", std::move(help), member);
  field.aliases = std::move(aliases);
  field.parse = [range, member](Config& config, std::string_view flag, std::string_view value) {
    config.*member = static_cast<T>(parse_integer(flag, value, range.least, range.most));
  };
  field.read = [member](Config& config, const Json& json) { config.*member = static_cast<T>(json.as_integer()); };
  field.json = [member](const Config& config) { return Json(static_cast<std::int64_t>(config.*member)); };
  field.text = [member](const Config& config) { return fmt::format("{}", config.*member); };
  field.check = [range, member](const Config& config, Source source) {
    checked(range, static_cast<std::int64_t>(config.*member), source);
  };
  return field;
}

template <class Config>
Field<Config> number_field(const NumberRange& range, double Config::*member, std::string help) {
  Field<Config> field = make_field(range.key, "X", std::move(help), member);
  field.parse = [range, member](Config& config, std::string_view flag, std::string_view value) {
    config.*member = parse_number(flag, value, range.least, range.below);
  };
  field.read = [member](Config& config, const Json& json) { config.*member = json.as_number(); };
  field.json = [member](const Config& config) { return Json(config.*member); };
  field.text = [member](const Config& config) { return fmt::format("{}", config.*member); };
  field.check = [range, member](const Config& config, Source source) { checked(range, config.*member, source); };
  return field;
}

template <class Config>
Field<Config> switch_field(std::string key, bool Config::*member, std::string help) {
  Field<Config> field = make_field(std::move(key), "on|off", std::move(help), member);
  field.is_switch = true;
  field.parse = [member](Config& config, std::string_view flag, std::string_view value) {
    config.*member = value.empty() || parse_word(flag, value, {"on", "off"}) == "on";
  };
  field.read = [member](Config& config, const Json& json) { config.*member = json.as_bool(); };
  field.json = [member](const Config& config) { return Json(config.*member); };
  field.text = [member](const Config& config) { return fmt::format("{}", config.*member); };
  return field;
}

// `of` converts a word to a value and throws Error(invalid_argument) for an invalid word; `name_of` is its inverse.
template <class Config, class T, class Of, class NameOf>
Field<Config> word_field(std::string key, std::string placeholder, T Config::*member, std::vector<std::string> words,
                         Of of, NameOf name_of, std::string help) {
  Field<Config> field = make_field(std::move(key), std::move(placeholder), std::move(help), member);
  field.parse = [member, words, of](Config& config, std::string_view flag, std::string_view value) {
    config.*member = of(parse_word(flag, value, words));
  };
  field.read = [member, of](Config& config, const Json& json) { config.*member = of(json.as_string()); };
  field.json = [member, name_of](const Config& config) { return Json(name_of(config.*member)); };
  field.text = [member, name_of](const Config& config) { return std::string(name_of(config.*member)); };
  return field;
}

// The values that flags have set, and the keys of their fields.
template <class Config>
struct Given {
  Config values;
  std::vector<std::string> keys;

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
  table.add({.name = shown(field.key, Source::flag).substr(2),
             .aliases = field.aliases,
             .takes = field.is_switch ? Takes::optional_value : Takes::value,
             .placeholder = field.placeholder,
             .help = field.help,
             .apply =
                 [field, &given](auto flag, auto value) {
                   field.parse(given.values, flag, value);
                   given.keys.push_back(field.key);
                 },
             .words = field.is_switch ? std::vector<std::string>{"on", "off"} : std::vector<std::string>{}});
}

}  // namespace strobe
