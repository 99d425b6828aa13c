// Messages between the launcher and the supervisor of each rank, over a Unix socket in the job's private folder. Before
// the launcher sends a supervisor anything, it checks the supervisor's user id and token.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/token.h"

namespace strobe::cli {

// Environment variable with the token of the supervisors. A supervisor unsets it before it starts its rank.
inline constexpr const char* kLaunchToken = "STROBE_LAUNCH_TOKEN";

// The first message of a supervisor.
struct Introduction {
  std::array<char, 2 * kTokenBytes> token;
  int rank;
};

struct RankStatus {
  enum class Kind : int { started, lost_output, ended } kind;
  int value;  // started: 0; lost_output: errno; ended: wait status
};

// Standard output and error of the launcher. `listener` is the listening socket of MASTER_PORT on rank 0, else -1.
struct RankDescriptors {
  int output = -1, errors = -1, listener = -1;
};

// Listens on a socket file. Throws Error(runtime).
int listen_for_supervisors(const std::string& path);
int connect_to_launcher(std::string_view path);

bool is_own_user(int socket);  // true if the peer has this process's effective user id

bool send_introduction(int socket, std::string_view token, int rank);
// Result of receive_introduction(). hung_up: the peer has disconnected, or the message is malformed. If no message has
// arrived yet, `value` is empty and `hung_up` is false.
struct ReceivedIntroduction {
  std::optional<Introduction> value;
  bool hung_up = false;
};
ReceivedIntroduction receive_introduction(int socket);

bool send_descriptors(int socket, const RankDescriptors& descriptors);
std::optional<RankDescriptors> receive_descriptors(int socket);

bool send_status(int socket, const RankStatus& status);
std::optional<RankStatus> receive_status(int socket);  // nullopt if the peer is gone or the message is malformed

// The launcher asks a supervisor to signal its rank. Does not block.
bool send_signal(int socket, int signal);
std::optional<int> receive_signal(int socket);  // waits; nullopt if the launcher is gone

}  // namespace strobe::cli
