// Names and files of --json-dir.
#include "bench/sweep/json_folder.h"

#include <unistd.h>

#include <filesystem>
#include <unordered_set>

#include "core/atomic_file.h"
#include "core/fail.h"

namespace strobe::bench {

std::string source_file_name(const Json& config, const std::string& implementation) {
  const std::string name = implementation == "flash2"     ? "Flash2"
                           : implementation == "standard" ? "Pytorch"
                                                          : implementation;
  const auto number = [&](const char* key) { return config.at(key).as_integer(); };
  return fmt::format("result_bs{}_sl{}_nh{}_ed{}_{}_causal{}.json", number("batch_size"), number("seq_len"),
                     number("num_heads"), number("emb_dim"), name, config.at("causal").as_bool() ? "_causal" : "");
}

JsonFolder::JsonFolder(std::string path, const std::vector<Problem>& problems) : path_(std::move(path)) {
  std::unordered_set<std::string> names;
  for (const Problem& problem : problems) {
    for (const std::string& implementation : problem.implementations) {
      const std::string name = source_file_name(problem.config, implementation);
      if (names.insert(name).second) continue;
      fail(ErrorCode::invalid_argument,
           "--json-dir {}: two cells would be {}, which encodes only batch, sequence, heads, embedding, implementation "
           "and "
           "causal; valid: one value of every other axis",
           path_, name);
    }
  }
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path_, error);
  const std::filesystem::path found = std::filesystem::exists(whole, error) ? whole : whole.parent_path();
  if (!std::filesystem::is_directory(found, error) || access(found.c_str(), W_OK | X_OK) != 0) {
    fail(ErrorCode::invalid_argument, "--json-dir {}: not a writable folder, and it cannot be created", path_);
  }
}

void JsonFolder::create() const {
  std::error_code error;
  std::filesystem::create_directory(path_, error);
  if (error) fail(ErrorCode::runtime, "--json-dir {}: {}", path_, error.message());
}

std::string JsonFolder::path_of(const Json& row) const {
  return path_ + "/" + source_file_name(row.at("config"), row.at("implementation").as_string());
}

void JsonFolder::write(const Json& row) const {
  AtomicFile(path_of(row), "--json-dir", AtomicFile::Links::refuse).commit(row.dump(1) + "\n");
}

void JsonFolder::write_if_missing(const Json& row) const {
  if (!std::filesystem::exists(path_of(row))) write(row);
}

}  // namespace strobe::bench
