// Random tokens from getrandom on Linux.
#include "core/token.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "core/fail.h"

namespace strobe {

std::string random_hex(std::size_t bytes) {
  std::string random(bytes, '\0');
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t got = getrandom(random.data() + have, bytes - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail(ErrorCode::runtime, "cannot read random bytes: {}", std::strerror(errno));
    have += static_cast<std::size_t>(got);
  }
  std::string text;
  for (const char byte : random) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference = static_cast<unsigned char>(difference | (static_cast<unsigned char>(a[i] ^ b[i])));
  return difference == 0;
}

}  // namespace strobe
