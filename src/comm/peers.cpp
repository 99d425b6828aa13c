// Implements failure detection. Every rank has a connection to rank 0, and one thread per process serves its
// connections.
#include "comm/peers.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "comm/handshake.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/sha256.h"

namespace strobe::comm {
namespace {

constexpr double kFailureLinger = 0.5;  // seconds that rank 0 stays connected after a failure, to send the reason
constexpr std::size_t kExcerpt = 400;   // maximum characters of a fact in a message
constexpr const char* kSilentEnd = "ended without a message";
constexpr const char* kMalformed = "sent a malformed message";

double beat_period(const Limits& limits) { return std::min(1.0, limits.silence / 5); }

std::string host_text(const std::string& host) { return host.empty() ? "unknown-host" : printable(host, kLongestHost); }

Presentation presentation_of(const World& world, const Facts& facts) {
  const std::string size = std::to_string(facts.build.size());  // the length marks where the fingerprint begins
  return {.proof = "",
          .rank = world.rank,
          .size = world.size,
          .host = printable(world.host, kLongestHost / 4),
          .build = printable(facts.build, kExcerpt),
          .fingerprint = printable(facts.fingerprint, kExcerpt),
          .facts_digest = hex_of(sha256(size + "|" + facts.build + facts.fingerprint))};
}

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
  const double until = now_seconds() + kFailureLinger;
  while (world_.rank == 0 && failed() && !closed_ && now_seconds() < until) usleep(10'000);
  quit_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
  if (wake_ >= 0) close(wake_);
}

std::string Peers::reason_to_refuse(const Presentation& other) const {
  const auto differ = [&](const char* what, const std::string& theirs, const std::string& ours) {
    return fmt::format("the ranks differ: {} is \"{}\" on rank {} ({}) and \"{}\" on rank 0 ({})", what,
                       printable(theirs, kExcerpt), other.rank, printable(other.host), ours, world_.host);
  };
  const Presentation own = presentation_of(world_, facts_);
  if (other.size != world_.size)
    return differ("the size of the world", std::to_string(other.size), std::to_string(world_.size));
  if (other.build != own.build) return differ("the build", other.build, own.build);
  if (other.fingerprint != own.fingerprint || other.facts_digest != own.facts_digest)
    return differ("the fingerprint", other.fingerprint, own.fingerprint);
  if (other.rank < 1 || other.rank >= world_.size || !hosts_[static_cast<std::size_t>(other.rank)].empty())
    return fmt::format("rank {} ({}) connected twice, or is not one of 1 to {}", other.rank, printable(other.host),
                       world_.size - 1);
  return "";
}

void Peers::refuse_all(const Refusal& refusal) {
  send_all(json_of(refusal));
  fail_as(refusal);
}

// Rank 0's side of the handshake.
void Peers::greet(Listener& listener) {
  hosts_.assign(static_cast<std::size_t>(world_.size), "");
  hosts_[0] = world_.host;
  double until = now_seconds() + limits_.operation;
  std::string refusal;
  Reception reception(listener, world_);
  while (static_cast<int>(members_.size()) + 1 < world_.size && now_seconds() < until) {
    for (Guest& guest : reception.wait(until)) {
      if (refusal.empty()) refusal = reason_to_refuse(guest.presentation);
      if (refusal.empty())
        hosts_[static_cast<std::size_t>(guest.presentation.rank)] = host_text(guest.presentation.host);
      members_.push_back({.rank = guest.presentation.rank, .channel = std::move(guest.channel)});
    }
    // The other ranks still have time to connect, so that they receive the refusal too.
    if (!refusal.empty()) until = std::min(until, now_seconds() + limits_.silence);
  }
  if (!refusal.empty()) refuse_all({.reason = refusal, .is_bad_input = true});
  for (int rank = 1; rank < world_.size; ++rank) {
    if (hosts_[static_cast<std::size_t>(rank)].empty())
      refuse_all({.reason = fmt::format("rank {} did not connect within {} s", rank, limits_.operation)});
  }
  send_all(json_of(Welcome{.hosts = hosts_, .shared = shared_}));
}

void Peers::join(const std::string& addresses, int port) {
  const double until = now_seconds() + limits_.operation;
  Channel channel = join_rank_0(world_, presentation_of(world_, facts_),
                                {.addresses = addresses, .port = port, .until = until, .patience = limits_.silence});
  const std::optional<Json> answer = channel.next(until + 2);
  if (!answer) fail(ErrorCode::runtime, "rank 0 {}", channel.ended() ? kSilentEnd : "does not answer");
  if (const std::optional<Refusal> refusal = parse_refusal(*answer)) fail_as(*refusal);
  const std::optional<Welcome> welcome = parse_welcome(*answer, world_.size);
  if (!welcome) fail(ErrorCode::runtime, "rank 0 {}", kMalformed);
  for (const std::string& host : welcome->hosts) hosts_.push_back(host_text(host));
  shared_ = welcome->shared;
  members_.push_back({.rank = 0, .channel = std::move(channel)});
}

void Peers::start() {
  calls_of_.assign(hosts_.size(), 0);
  left_.assign(hosts_.size(), false);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) fail(ErrorCode::runtime, "cannot create an eventfd for the thread that watches the other ranks");
  for (Member& member : members_) member.heard = now_seconds();
  thread_ = std::thread([this] { attend(); });
}

void Peers::wake() const {
  const std::uint64_t one = 1;
  if (wake_ >= 0) static_cast<void>(!write(wake_, &one, sizeof(one)));
}

void Peers::attend() {
  try {
    attend_until_closed();
    report_own_end();                      // give_up() may have been called in the meantime
  } catch (const std::exception& error) {  // out of memory
    set_failure(fmt::format("the thread that watches the other ranks failed: {}", error.what()));
  }
}

void Peers::attend_until_closed() {
  double next_beat = 0;
  bool announced = false;
  while (!quit_ && !closed_) {
    std::vector<pollfd> entries{{.fd = wake_, .events = POLLIN, .revents = 0}};
    for (const Member& member : members_) {
      const bool listens = !member.channel.ended();
      entries.push_back({.fd = listens ? member.channel.descriptor() : -1, .events = POLLIN, .revents = 0});
    }
    poll(entries.data(), entries.size(), static_cast<int>(beat_period(limits_) * 500));
    std::uint64_t ignored = 0;
    static_cast<void>(!read(wake_, &ignored, sizeof(ignored)));

    report_own_end();
    if (leaving_ && !announced && !failed()) {
      announced = true;
      const std::lock_guard lock(mutex_);
      left_[static_cast<std::size_t>(world_.rank)] = true;
      next_beat = 0;  // sends a heartbeat now, which announces that this rank leaves
    }
    if (beat_now_.exchange(false)) next_beat = 0;
    if (now_seconds() >= next_beat) {
      beat();
      next_beat = now_seconds() + beat_period(limits_);
    }
    for (Member& member : members_) hear(member);
    check_members();
  }
}

void Peers::report_own_end() {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    reason.swap(reason_);
  }
  if (!reason.empty()) lose(world_.rank, reason);
}

void Peers::hear(Member& member) {
  const std::size_t calls = world_.rank == 0 ? 1 : hosts_.size();
  while (const std::optional<Json> message = member.channel.next()) {
    member.heard = now_seconds();
    const std::optional<Status> status = parse_status(*message, calls);
    if (!status) return member.channel.refuse();  // check_members reports the rank as lost
    handle(member, *status);
  }
}

void Peers::handle(Member& member, const Status& status) {
  if (const auto* failed = std::get_if<Failed>(&status)) {
    if (this->failed()) return;
    if (world_.rank == 0) send_all(json_of(status));
    set_failure(printable(failed->reason, 600));
  } else if (const auto* beat = std::get_if<Beat>(&status)) {
    const std::lock_guard lock(mutex_);
    if (world_.rank == 0) {
      calls_of_[static_cast<std::size_t>(member.rank)] = beat->calls[0];
    } else {
      calls_of_ = beat->calls;
    }
    member.left = beat->left;
    left_[static_cast<std::size_t>(member.rank)] = member.left;
    heard_.notify_all();
  } else if (world_.rank != 0) {  // Closed, which only rank 0 sends
    closed_ = true;
  }
}

void Peers::beat() {
  Beat beat;
  {
    const std::lock_guard lock(mutex_);
    const auto own = static_cast<std::size_t>(world_.rank);
    calls_of_[own] = calls_;
    beat.calls = world_.rank == 0 ? calls_of_ : std::vector<std::int64_t>{calls_of_[own]};
    beat.left = left_[own];
  }
  send_all(json_of(beat));
}

// Detects members that have disconnected or are silent.
void Peers::check_members() {
  if (failed()) {  // rank 0 stays until all others have disconnected, so that they receive the reason
    const bool is_last = std::all_of(members_.begin(), members_.end(),
                                     [&](const Member& m) { return m.channel.ended() || m.rank == lost_; });
    if (world_.rank == 0 && is_last) closed_ = true;
    return;
  }
  for (const Member& member : members_) {
    if (member.channel.ended() && !closed_)
      return lose(member.rank, member.channel.malformed() ? kMalformed : kSilentEnd);
    if (now_seconds() - member.heard > limits_.silence)
      return lose(member.rank, fmt::format("sent nothing for {:g} s", limits_.silence));
  }
  if (world_.rank == 0) check_leaving();
}

// On rank 0: closes the connections once all ranks have left. A rank that left after fewer calls than another rank has
// entered counts as lost.
void Peers::check_leaving() {
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
  send_all(json_of(Closed{}));
  closed_ = true;
}

void Peers::send_all(const Json& message) {
  for (Member& member : members_) {
    if (!member.channel.ended()) member.channel.send(message);
  }
}

void Peers::lose(int rank, const std::string& why) {
  if (failed()) return;
  lost_ = rank;
  const std::string text = name_of_rank(rank) + " " + why;
  send_all(json_of(Failed{text}));  // sent first, since the caller may end the process as soon as it sees the failure
  set_failure(text);
}

void Peers::set_failure(const std::string& text) {
  const std::lock_guard lock(mutex_);
  failure_ = text;
  failed_.store(true, std::memory_order_release);
  heard_.notify_all();
}

std::string Peers::name_of_rank(int rank) const {
  return fmt::format("rank {} on {}", rank, hosts_[static_cast<std::size_t>(rank)]);
}

std::string Peers::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void Peers::await_rank_0(std::int64_t call, double until) {
  if (world_.rank == 0) {
    beat_now_ = true;
    return wake();
  }
  std::unique_lock lock(mutex_);
  heard_.wait_for(lock, std::chrono::duration<double>(until - now_seconds()),
                  [&] { return failed() || calls_of_[0] >= call; });
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
