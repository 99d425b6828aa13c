#include "lm/upkeep.h"

#include <filesystem>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

std::int64_t whole_in(const Json& json, const char* key, std::int64_t least) {
  const std::int64_t value = json.at(key).as_integer();
  if (value < least) fail(ErrorCode::invalid_argument, "{} {}: valid: {} or more", key, value, least);
  return value;
}

}  // namespace

Json to_json(const Upkeep& upkeep) {
  Json json = Json::object({{"checkpoint_every", upkeep.checkpoint_every},
                            {"keep", upkeep.keep},
                            {"val_data", upkeep.validation},
                            {"val_every", upkeep.validation_every},
                            {"val_batches", upkeep.validation_batches}});
  if (!upkeep.job.empty()) json.set("job", upkeep.job);
  if (upkeep.settings) json.set("settings", to_json(*upkeep.settings));
  return json;
}

Upkeep upkeep_from(const Json& json) {
  const Json *const job = json.find("job"), *const settings = json.find("settings");
  return {.checkpoint_every = whole_in(json, "checkpoint_every", 0),
          .keep = whole_in(json, "keep", 0),
          .validation = json.at("val_data").as_string(),
          .validation_every = whole_in(json, "val_every", 0),
          .validation_batches = whole_in(json, "val_batches", 1),
          .job = job ? job->as_string() : "",
          .settings = settings ? std::optional(settings_from(*settings)) : std::nullopt};
}

Upkeep read_upkeep(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const std::string shown = printable_value(path);
  const MappedFile file(path, shown);
  try {
    return upkeep_from(Json::parse(file.text()));
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument,
         "{}: is damaged: {}; remove it, and say --checkpoint-every, --keep and --val-data anew where the run had any",
         shown, error.what());
  }
}

void write_upkeep(const std::string& path, const Upkeep& upkeep) {
  AtomicFile(path, "--out", AtomicFile::Links::refuse).commit(to_json(upkeep).dump() + "\n");
}

}  // namespace strobe::lm
