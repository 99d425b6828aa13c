// Profiling scopes: named spans of host time, such as the softmax between two matmuls. The calling thread's sink is
// notified of each. The kernel `standard` and ops/attention.cpp define scopes; `strobe lm profile` measures their time.
// Without a sink a scope costs one null check.
#pragma once

namespace strobe {

enum class ScopeKind { matmul, other };

class ProfileSink {
 public:
  virtual ~ProfileSink() = default;
  virtual void begin_scope(const char* name, ScopeKind kind) = 0;  // name is a string literal
  virtual void end_scope() = 0;
};

extern constinit thread_local ProfileSink* profile_sink;  // the calling thread's sink, or null

// Reports its construction and destruction to the sink. Scopes of a thread must not nest. The time of a scope
// includes work that other threads do for the caller.
class ProfileScope {
 public:
  explicit ProfileScope(const char* name, ScopeKind kind = ScopeKind::other) : sink_(profile_sink) {
    if (sink_) sink_->begin_scope(name, kind);
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;
  ~ProfileScope() {
    if (sink_) sink_->end_scope();
  }

 private:
  ProfileSink* sink_;
};

}  // namespace strobe
