// Profiling scopes on the host, such as the softmax between two matmuls, reported to a sink of the calling thread.
// `standard` names its scopes; `strobe lm profile` times them. Without a sink a scope costs one null check.
#pragma once

namespace strobe {

enum class PartKind { product, other };

class PartListener {
 public:
  virtual ~PartListener() = default;
  virtual void begin_part(const char* name, PartKind kind) = 0;  // name: a literal
  virtual void end_part() = 0;
};

extern constinit thread_local PartListener* part_listener;  // the calling thread's sink; null: none

// Reports the time from here to the end of the scope, including work of other threads for it. Scopes do not overlap.
class Part {
 public:
  explicit Part(const char* name, PartKind kind = PartKind::other) : listener_(part_listener) {
    if (listener_) listener_->begin_part(name, kind);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  ~Part() {
    if (listener_) listener_->end_part();
  }

 private:
  PartListener* listener_;
};

}  // namespace strobe
