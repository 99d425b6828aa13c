// Generates the problem and answer file of a case, a few batches at a time. Renames both files at the end, and then
// lists the case in cases.json.
#include "solve/case_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "core/divide.h"
#include "core/fail.h"
#include "core/json.h"
#include "core/mapped_file.h"
#include "core/philox.h"
#include "core/printable.h"
#include "core/regular_file.h"
#include "device/host/thread_pool.h"

namespace strobe::solve {
namespace {

constexpr std::int64_t kChunkElements = 4 << 20;  // elements of O per chunk; its inputs have three times as many
constexpr std::int64_t kFile = 1;                 // format version of cases.json

// Throws if `output` is the file that standard output writes to: the printed report would mix with the answer.
void check_not_standard_output(const std::string& output) {
  struct stat file, standard;
  if (stat(output.c_str(), &file) != 0 || fstat(STDOUT_FILENO, &standard) != 0) return;
  if (file.st_dev != standard.st_dev || file.st_ino != standard.st_ino || S_ISCHR(file.st_mode)) return;
  fail(ErrorCode::invalid_argument,
       "output {}: is the standard output, where the report is printed; valid: another file", printable_value(output));
}

Json entry_of(const TestCase& one, std::uint64_t seed) {
  return Json::object(
      {{"seed", static_cast<std::int64_t>(seed)}, {"B", one.size.batch}, {"N", one.size.rows}, {"d", one.size.dim}});
}

// Returns the contents of cases.json; an empty list if the file is missing, invalid or from another format version.
Json read_list(const std::filesystem::path& folder) {
  const Json none = Json::object({{"file", kFile}, {"cases", Json::object()}});
  try {
    const MappedFile file(list_path(folder).string(), "cases.json");
    Json list = Json::parse(file.text());
    return list.at("file").as_integer() == kFile && list.at("cases").is_object() ? list : none;
  } catch (const Error&) {
    return none;
  }
}

bool has_bytes(const std::filesystem::path& path, std::int64_t bytes) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) &&
         std::filesystem::file_size(path, error) == static_cast<std::uintmax_t>(bytes);
}

bool is_made(const std::filesystem::path& folder, const TestCase& one, std::uint64_t seed) {
  const Json list = read_list(folder);
  const Json* entry = list.at("cases").find(one.name);
  return entry && entry->dump() == entry_of(one, seed).dump() &&
         has_bytes(problem_path(folder, one), static_cast<std::int64_t>(kHeaderBytes) + 12 * one.size.total()) &&
         has_bytes(answer_path(folder, one), 4 * one.size.total());
}

bool is_list(const std::string& text) {
  try {
    const Json list = Json::parse(text);
    return list.at("file").as_integer() > 0 && list.at("cases").is_object();
  } catch (const Error&) {
    return false;
  }
}

// Throws Error(invalid_argument) unless cases.json is absent, empty, or a list that any version of this program wrote.
void check_list(const std::filesystem::path& folder) {
  const std::string path = list_path(folder).string(), shown = printable_value(path);
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return;
  const MappedFile file(open_regular(path, O_RDONLY, shown), shown);
  if (file.bytes() == 0 || is_list(std::string(file.text()))) return;
  fail(ErrorCode::invalid_argument, "{}: exists and is not a list of cases; valid: another folder, or remove it first",
       shown);
}

// Replaces the case's entry in cases.json by `entry`; removes it if `entry` is null.
void note(const std::filesystem::path& folder, const std::string& name, const Json* entry) {
  const Json list = read_list(folder);
  Json cases = Json::object();
  for (const auto& [other, value] : list.at("cases").as_object()) {
    if (other != name) cases.set(other, value);
  }
  if (entry) cases.set(name, *entry);
  AtomicFile file(list_path(folder).string(), "cases:");
  file.commit(Json::object({{"file", kFile}, {"cases", std::move(cases)}}).dump(2) + "\n");
}

std::string_view bytes_of(const float* values, std::int64_t count) {
  return {reinterpret_cast<const char*>(values), static_cast<std::size_t>(count) * sizeof(float)};
}

struct Header {
  std::int32_t batch, rows, dim;
  bool operator==(const Header&) const = default;
};
static_assert(sizeof(Header) == kHeaderBytes);

Header header_of(const ProblemSize& size) {
  return {static_cast<std::int32_t>(size.batch), static_cast<std::int32_t>(size.rows),
          static_cast<std::int32_t>(size.dim)};
}

// The header and the first 8 values of a problem file, which identify its size and seed. Every case has at least 8
// values.
struct Beginning {
  Header header{};
  float values[8]{};
  bool operator==(const Beginning&) const = default;
};

}  // namespace

void uniform_values(std::uint64_t seed, std::uint64_t first, std::int64_t count, float* values) {
  constexpr std::int64_t kTask = 1 << 16;
  parallel_for(available_cores(), ceil_div(count, kTask), [&](int, std::int64_t task) {
    for (std::int64_t i = task * kTask; i < std::min(count, (task + 1) * kTask); ++i) {
      const std::uint64_t at = first + static_cast<std::uint64_t>(i);
      const std::uint64_t block = at / 4;
      const auto words =
          philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, seed);
      values[i] = static_cast<float>(words[at % 4] >> 8) * (6 * 0x1p-24f) - 3;
    }
  });
}

std::filesystem::path problem_path(const std::filesystem::path& folder, const TestCase& one) {
  return folder / one.name;
}

std::filesystem::path list_path(const std::filesystem::path& folder) { return folder / "cases.json"; }

std::filesystem::path answer_path(const std::filesystem::path& folder, const TestCase& one) {
  return folder / (one.name + ".out");
}

Made make_case(const std::filesystem::path& folder, const TestCase& one, std::uint64_t seed,
               const std::function<void(double done)>& progress) {
  if (is_made(folder, one, seed)) return Made::before;
  const ProblemSize& size = one.size;
  AtomicFile problem(problem_path(folder, one).string(), "cases:");
  problem.check_room(kHeaderBytes + static_cast<std::uint64_t>(size.total()) * 16);  // includes the answer
  AnswerFile answer(answer_path(folder, one).string(), size);
  const Header header = header_of(size);
  problem.write({reinterpret_cast<const char*>(&header), sizeof(header)});

  const std::int64_t elements = size.elements();
  const std::int64_t batches = std::clamp<std::int64_t>(kChunkElements / elements, 1, size.batch);
  std::vector<float> inputs(static_cast<std::size_t>(3 * batches * elements));
  std::vector<float> outputs(static_cast<std::size_t>(batches * elements));
  for (std::int64_t begin = 0; begin < size.batch; begin += batches) {
    if (progress) progress(static_cast<double>(begin) / static_cast<double>(size.batch));
    const std::int64_t count = std::min(batches, size.batch - begin);
    uniform_values(seed, static_cast<std::uint64_t>(3 * begin * elements), 3 * count * elements, inputs.data());
    problem.write(bytes_of(inputs.data(), 3 * count * elements));
    float64_forward({count, size.rows, size.dim}, inputs.data(), outputs.data());
    answer.write(outputs.data(), count * elements);
  }
  note(folder, one.name, nullptr);  // first, because between the two renames problem and answer do not match
  problem.commit();
  answer.commit();
  const Json entry = entry_of(one, seed);
  note(folder, one.name, &entry);
  return Made::now;
}

void check_not_another(const std::filesystem::path& folder, const TestCase& one, std::uint64_t seed) {
  check_list(folder);
  if (is_made(folder, one, seed)) return;
  const std::string path = problem_path(folder, one).string();
  for (const std::string& name : {path, answer_path(folder, one).string()}) {
    struct stat status {};
    if (lstat(name.c_str(), &status) == 0) check_regular(status.st_mode, printable_value(name));
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  Beginning expected{.header = header_of(one.size)}, found;
  uniform_values(seed, 0, std::ssize(expected.values), expected.values);
  const MappedFile file(path, printable_value(path));
  file.text().copy(reinterpret_cast<char*>(&found), sizeof(found));
  if (found == expected) return;
  fail(ErrorCode::invalid_argument,
       "{}: exists with the header ({}, {}, {}), but is not the case ({}, {}, {}) of seed {}; valid: another folder, "
       "or remove {} first",
       printable_value(path), found.header.batch, found.header.rows, found.header.dim, one.size.batch, one.size.rows,
       one.size.dim, seed, printable_value(path));
}

void check_output_place(const std::string& input, const std::string& output) {
  check_apart("output", output, "the input", input);
  check_not_standard_output(output);
  std::error_code error;
  const std::filesystem::path path = std::filesystem::weakly_canonical(std::filesystem::absolute(output, error), error);
  const std::filesystem::path name = path.extension() == ".out" ? path.stem() : path.filename();
  const Json list = read_list(path.parent_path());
  if (!list.at("cases").find(name.string())) return;
  fail(ErrorCode::invalid_argument,
       "output {}: is a file of case {}, listed in cases.json of its folder; valid: another name",
       printable_value(output), printable(name.string()));
}

}  // namespace strobe::solve
