// Parses, validates and writes the headers of safetensors files.
#include "lm/data/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/fail.h"
#include "core/json.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

static_assert(std::endian::native == std::endian::little, "lengths and tensors are copied without byte swapping");

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeader = Json::kMaxBytes;   // header limit of this reader; the format allows more
constexpr std::uint64_t kMostInTheFormat = 100'000'000;  // header limit of the format, in bytes

constexpr std::pair<const char*, std::int64_t> kTypes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8},
                                                           {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U8", 1},  {"U16", 2},
                                                           {"U32", 4}, {"U64", 8}, {"BOOL", 1}};

// Returns the bytes per element, or 0 for an unknown type.
std::int64_t element_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kTypes) {
    if (dtype == name) return bytes;
  }
  return 0;
}

// Sets `bytes` to the tensor's size. Returns false if it does not fit in 63 bits.
bool bytes_of(const StoredTensor& tensor, std::int64_t& bytes) {
  bytes = element_bytes(tensor.dtype);
  for (const std::int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return false;
  }
  return true;
}

std::int64_t natural(const Json& value) {
  const std::int64_t number = value.as_integer();
  if (number < 0) fail(ErrorCode::invalid_argument, "{} is below 0", number);
  return number;
}

StoredTensor read_tensor(const std::string& name, const Json& entry) {
  StoredTensor tensor{.name = name, .dtype = {}, .shape = {}, .begin = 0, .end = 0};
  if (entry.as_object().size() != 3) {
    fail(ErrorCode::invalid_argument, "it has {} keys; valid: dtype, shape, data_offsets", entry.size());
  }
  tensor.dtype = entry.at("dtype").as_string();
  if (element_bytes(tensor.dtype) == 0) {
    fail(ErrorCode::invalid_argument, "its dtype {} is unknown", printable_value(tensor.dtype));
  }
  for (const Json& size : entry.at("shape").as_array()) tensor.shape.push_back(natural(size));
  std::int64_t bytes = 0;
  if (!bytes_of(tensor, bytes)) {
    fail(ErrorCode::invalid_argument, "its shape [{}] is more than any file holds", fmt::join(tensor.shape, ", "));
  }
  const Json::Array& offsets = entry.at("data_offsets").as_array();
  if (offsets.size() != 2) fail(ErrorCode::invalid_argument, "it has {} data_offsets; valid: 2", offsets.size());
  const std::int64_t begin = natural(offsets[0]), end = natural(offsets[1]);
  if (end < begin || end - begin != bytes) {
    fail(ErrorCode::invalid_argument, "its data_offsets [{}, {}] are not the {} bytes of {} [{}]", begin, end, bytes,
         tensor.dtype, fmt::join(tensor.shape, ", "));
  }
  tensor.begin = static_cast<std::size_t>(begin);
  tensor.end = static_cast<std::size_t>(end);
  return tensor;
}

SafeTensors read_header(std::string_view text) {
  SafeTensors file;
  const Json header = Json::parse(text);
  for (const auto& [name, entry] : header.as_object()) {
    if (name == kMetadata) {
      for (const auto& [key, value] : entry.as_object()) file.metadata.emplace_back(key, value.as_string());
      continue;
    }
    try {
      file.tensors.push_back(read_tensor(name, entry));
    } catch (const Error& error) {
      fail(ErrorCode::invalid_argument, "tensor {}: {}", printable_value(name), error.what());
    }
  }
  return file;
}

// Checks that each tensor begins where the previous one ends and that the last one ends at the end of the file.
void check_places(const SafeTensors& file, std::size_t data_bytes) {
  std::size_t next = 0;
  for (const StoredTensor& tensor : file.tensors) {
    if (tensor.begin != next) {
      fail(ErrorCode::invalid_argument, "tensor {}: begins at byte {} of the data, where {} was expected",
           printable_value(tensor.name), tensor.begin, next);
    }
    next = tensor.end;
  }
  if (next != data_bytes) {
    fail(ErrorCode::invalid_argument, "its tensors have {} bytes, but {} follow the header", next, data_bytes);
  }
}

}  // namespace

const std::string* SafeTensors::find_metadata(std::string_view key) const {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

void append(SafeTensors& file, std::string name, std::string dtype, std::vector<std::int64_t> shape) {
  StoredTensor tensor{std::move(name), std::move(dtype), std::move(shape), file.data_bytes(), 0};
  std::int64_t bytes = 0;
  if (!bytes_of(tensor, bytes)) {
    fail(ErrorCode::invalid_argument, "safetensors: {} is larger than any file", tensor.name);
  }
  tensor.end = tensor.begin + static_cast<std::size_t>(bytes);
  file.tensors.push_back(std::move(tensor));
}

std::string header_of(SafeTensors& file) {
  Json metadata = Json::object();
  for (const auto& [key, value] : file.metadata) metadata.set(key, value);
  Json::Object entries{{kMetadata, std::move(metadata)}};
  for (const StoredTensor& tensor : file.tensors) {
    Json shape = Json::array();
    for (const std::int64_t size : tensor.shape) shape.push_back(size);
    entries.emplace_back(tensor.name, Json::object({{"dtype", tensor.dtype},
                                                    {"shape", std::move(shape)},
                                                    {"data_offsets", Json::array({tensor.begin, tensor.end})}}));
  }
  std::string text = Json::object(std::move(entries)).dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  file.data_begin = kLengthBytes + text.size();
  return bytes + text;
}

SafeTensors parse_safetensors(std::string_view file, std::string_view shown) {
  if (file.size() < kLengthBytes) {
    fail(ErrorCode::invalid_argument, "{}: has {} bytes, too few for the header's length of 8", shown, file.size());
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMostInTheFormat) {
    fail(ErrorCode::invalid_argument, "{}: is not a safetensors file: it does not begin with the length of a header",
         shown);
  }
  if (length > kMostHeader) {
    fail(ErrorCode::invalid_argument, "{}: its header has {} bytes; valid: up to {}", shown, length, kMostHeader);
  }
  if (length > file.size() - kLengthBytes) {
    fail(ErrorCode::invalid_argument,
         "{}: is truncated, or not a safetensors file: its header has {} bytes, but {} follow", shown, length,
         file.size() - kLengthBytes);
  }
  SafeTensors parsed;
  try {
    const std::string_view header = file.substr(kLengthBytes, length);
    if (!header.starts_with('{')) fail(ErrorCode::invalid_argument, "does not begin with a brace");
    parsed = read_header(header);
    std::stable_sort(parsed.tensors.begin(), parsed.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    parsed.data_begin = kLengthBytes + length;
    check_places(parsed, file.size() - parsed.data_begin);
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument, "{}: its header: {}", shown, error.what());
  }
  return parsed;
}

}  // namespace strobe::lm
