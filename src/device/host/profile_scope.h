// Profiling scopes on the host, such as the softmax between two matmuls, reported to a sink of the calling thread.
// `standard` names its scopes; `strobe lm profile` times them. Without a sink a scope costs one null check.
#pragma once

namespace strobe {

enum class ScopeKind { matmul, other };

class ProfileSink {
 public:
  virtual ~ProfileSink() = default;
  virtual void begin_scope(const char* name, ScopeKind kind) = 0;  // name: a literal
  virtual void end_scope() = 0;
};

extern constinit thread_local ProfileSink* profile_sink;  // the calling thread's sink; null: none

// Reports the time from here to the end of the scope, including work of other threads for it. Scopes do not overlap.
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
