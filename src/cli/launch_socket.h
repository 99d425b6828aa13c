// What the launcher and the process around each rank say to each other, over a local socket that keeps messages apart.
#pragma once

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace strobe::cli {

struct RankNews {
  enum class Kind : int { started, lost_output, ended } kind;
  int rank;
  int value;  // process id, errno or wait status
};

std::string random_word();  // 16 digits and letters that nobody else has; throws Error(runtime)

// Both in the abstract namespace; throw Error(runtime).
int listen_for_ranks(const std::string& name);
int connect_to_launcher(std::string_view name);
pid_t process_behind(int socket);  // that connected; 0 where the system does not say

// The standard output and error of the launcher, to be written to by a rank.
bool send_streams(int socket);
std::optional<std::array<int, 2>> receive_streams(int socket);

bool send_news(int socket, const RankNews& news);
std::optional<RankNews> receive_news(int socket);  // nothing where the other end is gone

}  // namespace strobe::cli
