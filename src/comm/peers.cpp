// A star of connections around rank 0, one thread a process.
#include "comm/peers.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::comm {
namespace {

constexpr double kLastWords = 0.5;  // seconds that a failed rank 0 stays for the others to hear why

double beat_period(const Limits& limits) { return std::min(1.0, limits.silence / 5); }

std::string text_of(const Json& message, const char* key) { return printable(message.at(key).as_string(), 400); }

}  // namespace

Peers::Peers(const World& world, const Facts& facts, const Limits& limits, Listener& listener, std::string shared)
    : world_(world), facts_(facts), limits_(limits), shared_(std::move(shared)) {
  greet(listener);
  start();
}

Peers::Peers(const World& world, const Facts& facts, const Limits& limits, const std::string& addresses, int port)
    : world_(world), facts_(facts), limits_(limits) {
  join(addresses, port);
  start();
}

Peers::~Peers() {
  const double until = now_seconds() + kLastWords;
  // The last one to close takes nothing away from those that still read.
  while (world_.rank == 0 && failed() && !closed_ && now_seconds() < until) usleep(10'000);
  quit_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  if (wake_ >= 0) close(wake_);
}

// Rank 0's side of the handshake.
void Peers::greet(Listener& listener) {
  hosts_.assign(static_cast<std::size_t>(world_.size), "");
  hosts_[0] = world_.host;
  double until = now_seconds() + limits_.operation;
  std::string refusal;
  while (static_cast<int>(members_.size()) + 1 < world_.size) {
    std::optional<Channel> channel = listener.accept(until);
    if (!channel) break;
    const std::optional<Json> hello = channel->next(std::min(until, now_seconds() + 5));
    if (!hello || !hello->find("rank")) continue;  // not one of ours
    const auto rank = static_cast<int>(hello->at("rank").as_integer());
    const std::string host = text_of(*hello, "host");
    const auto differ = [&](const char* what, const std::string& theirs, const std::string& ours) {
      if (refusal.empty() && theirs != ours)
        refusal = fmt::format("the ranks differ: {} is \"{}\" on rank {} ({}) and \"{}\" on rank 0 ({})", what, theirs,
                              rank, host, ours, world_.host);
    };
    differ("the size of the world", std::to_string(hello->at("size").as_integer()), std::to_string(world_.size));
    differ("the build", text_of(*hello, "build"), printable(facts_.build, 400));
    differ("the fingerprint", text_of(*hello, "fingerprint"), printable(facts_.fingerprint, 400));
    const bool fits = rank > 0 && rank < world_.size;
    if (refusal.empty() && (!fits || !hosts_[static_cast<std::size_t>(rank)].empty()))
      refusal = fmt::format("rank {} ({}) came twice or is none of 1 to {}", rank, host, world_.size - 1);
    if (refusal.empty()) hosts_[static_cast<std::size_t>(rank)] = host;
    members_.push_back({.rank = rank, .channel = std::move(*channel)});
    if (!refusal.empty()) until = std::min(until, now_seconds() + limits_.silence);  // others that come are told too
  }
  if (!refusal.empty()) {
    tell_all(Json::object({{"refused", refusal}}));
    fail(ErrorCode::invalid_argument, "{}", refusal);
  }
  for (int rank = 1; rank < world_.size; ++rank) {
    if (!hosts_[static_cast<std::size_t>(rank)].empty()) continue;
    const std::string missing = fmt::format("rank {} did not come in {} s", rank, limits_.operation);
    tell_all(Json::object({{"refused", missing}}));
    fail(ErrorCode::runtime, "{}", missing);
  }
  Json hosts = Json::array();
  for (const std::string& host : hosts_) hosts.push_back(host);
  tell_all(Json::object({{"hosts", hosts}, {"shared", shared_}}));
}

void Peers::join(const std::string& addresses, int port) {
  const double until = now_seconds() + limits_.operation;
  std::optional<Channel> channel = connect_to(addresses, port, until);
  if (!channel)
    fail(ErrorCode::runtime, "rank 0 is not reached at {} port {} in {} s", printable(addresses), port,
         limits_.operation);
  channel->send(Json::object({{"rank", world_.rank},
                              {"size", world_.size},
                              {"host", world_.host},
                              {"build", facts_.build},
                              {"fingerprint", facts_.fingerprint}}));
  const std::optional<Json> answer = channel->next(until + 2);
  if (!answer) fail(ErrorCode::runtime, "rank 0 {}", channel->ended() ? "ended without a word" : "does not answer");
  if (answer->find("refused")) {
    const std::string refusal = text_of(*answer, "refused");
    const bool differ = refusal.find("did not come") == std::string::npos;
    fail(differ ? ErrorCode::invalid_argument : ErrorCode::runtime, "{}", refusal);
  }
  for (const Json& host : answer->at("hosts").as_array()) hosts_.push_back(printable(host.as_string()));
  shared_ = answer->at("shared").as_string();
  members_.push_back({.rank = 0, .channel = std::move(*channel)});
}

void Peers::start() {
  calls_of_.assign(hosts_.size(), 0);
  left_.assign(hosts_.size(), false);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) fail(ErrorCode::runtime, "no eventfd for the thread that watches the other ranks");
  for (Member& member : members_) member.heard = now_seconds();  // before, ranks may have waited for others
  thread_ = std::thread([this] { attend(); });
}

void Peers::wake() const {
  const std::uint64_t one = 1;
  if (wake_ >= 0) static_cast<void>(!write(wake_, &one, sizeof(one)));
}

void Peers::attend() {
  double next_beat = 0;
  bool told_leaving = false;
  while (!quit_ && !closed_) {
    std::vector<pollfd> entries{{.fd = wake_, .events = POLLIN, .revents = 0}};
    for (const Member& member : members_) {
      const bool listens = !member.channel.ended();
      entries.push_back({.fd = listens ? member.channel.descriptor() : -1, .events = POLLIN, .revents = 0});
    }
    poll(entries.data(), entries.size(), static_cast<int>(beat_period(limits_) * 500));
    std::uint64_t ignored = 0;
    static_cast<void>(!read(wake_, &ignored, sizeof(ignored)));

    tell_own_end();
    if (leaving_ && !told_leaving && !failed()) {
      told_leaving = true;
      const std::lock_guard lock(mutex_);
      left_[static_cast<std::size_t>(world_.rank)] = true;
      next_beat = 0;  // which says so
    }
    if (now_seconds() >= next_beat) {
      beat();
      next_beat = now_seconds() + beat_period(limits_);
    }
    for (Member& member : members_) hear(member);
    check_members();
  }
  tell_own_end();  // a reason may be as late as that
}

void Peers::tell_own_end() {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason.swap(reason_);
  }
  if (!reason.empty()) lose(world_.rank, reason);
}

void Peers::hear(Member& member) {
  while (const std::optional<Json> message = member.channel.next()) {
    member.heard = now_seconds();
    handle(member, *message);
  }
}

// {"failed": text}, {"closed": true}, or {"calls": [...] of all or of the sender, "left": bool}
void Peers::handle(Member& member, const Json& message) {
  if (const Json* text = message.find("failed")) {
    if (!failed()) {
      if (world_.rank == 0) tell_all(message);
      const std::lock_guard lock(mutex_);
      failure_ = printable(text->as_string(), 600);
      failed_.store(true, std::memory_order_release);
    }
    return;
  }
  if (message.find("closed")) {
    closed_ = true;
    return;
  }
  const Json* calls = message.find("calls");
  if (!calls) return;
  const std::lock_guard lock(mutex_);
  if (calls->is_array()) {
    for (std::size_t i = 0; i < calls_of_.size() && i < calls->size(); ++i)
      calls_of_[i] = calls->as_array()[i].as_integer();
  } else {
    calls_of_[static_cast<std::size_t>(member.rank)] = calls->as_integer();
  }
  member.left = message.at("left").as_bool();
  left_[static_cast<std::size_t>(member.rank)] = member.left;
}

void Peers::beat() {
  Json message = Json::object();
  {
    const std::lock_guard lock(mutex_);
    calls_of_[static_cast<std::size_t>(world_.rank)] = calls_;
    if (world_.rank == 0) {
      Json calls = Json::array();
      for (const std::int64_t call : calls_of_) calls.push_back(call);
      message.set("calls", calls);
    } else {
      message.set("calls", calls_.load());
    }
    message.set("left", static_cast<bool>(left_[static_cast<std::size_t>(world_.rank)]));
  }
  tell_all(message);
}

// Who is gone, silent, or has left while others need it; and, on rank 0, whether all have left.
void Peers::check_members() {
  if (failed()) {  // rank 0 stays until all others have gone
    const bool alone = std::all_of(members_.begin(), members_.end(),
                                   [&](const Member& m) { return m.channel.ended() || m.rank == lost_; });
    if (world_.rank == 0 && alone) closed_ = true;
    return;
  }
  for (const Member& member : members_) {
    if (member.channel.ended() && !closed_) return lose(member.rank, "ended without a word");
    if (now_seconds() - member.heard > limits_.silence)
      return lose(member.rank, fmt::format("gave no sign of life for {:g} s", limits_.silence));
  }
  if (world_.rank != 0) return;
  int early = -1;
  bool all = true;
  std::int64_t done = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t most = *std::max_element(calls_of_.begin(), calls_of_.end());
    for (std::size_t i = 0; i < left_.size(); ++i) {
      all = all && left_[i];
      if (left_[i] && calls_of_[i] < most && early < 0) early = static_cast<int>(i), done = calls_of_[i];
    }
  }
  if (early >= 0) return lose(early, fmt::format("left after {} calls", done));
  if (!all) return;
  tell_all(Json::object({{"closed", true}}));
  closed_ = true;
}

void Peers::tell_all(const Json& message) {
  for (Member& member : members_) {
    if (!member.channel.ended()) member.channel.send(message);
  }
}

void Peers::lose(int rank, const std::string& why) {
  if (failed()) return;
  lost_ = rank;
  const std::string text = name_of_rank(rank) + " " + why;
  tell_all(Json::object({{"failed", text}}));  // before anybody here acts on it and ends
  const std::lock_guard lock(mutex_);
  failure_ = text;
  failed_.store(true, std::memory_order_release);
}

std::string Peers::name_of_rank(int rank) const {
  return fmt::format("rank {} on {}", rank, hosts_[static_cast<std::size_t>(rank)]);
}

std::string Peers::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string Peers::late_for(std::int64_t call) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (std::size_t i = 0; i < calls_of_.size(); ++i) {
    if (calls_of_[i] >= call || static_cast<int>(i) == world_.rank) continue;
    text += (text.empty() ? ", not reached by " : ", ") + name_of_rank(static_cast<int>(i));
  }
  return text;
}

void Peers::give_up(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (reason_.empty()) reason_ = "gave up: " + printable(reason, 400);
  }
  wake();
  const double until = now_seconds() + 2;
  while (!failed() && now_seconds() < until) usleep(1'000);
}

bool Peers::leave() {
  leaving_ = true;
  wake();
  const double until = now_seconds() + limits_.operation;
  while (!closed_ && !failed() && now_seconds() < until) usleep(1'000);
  return closed_ && !failed();
}

}  // namespace strobe::comm
