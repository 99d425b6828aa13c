// Parts of a call on the host, such as the softmax between two products, told to who listens on the calling thread:
// `standard` names its parts, `strobe lm profile` times them. Where nobody listens a part costs a look at a pointer.
#pragma once

namespace strobe {

enum class PartKind { product, other };

class PartListener {
 public:
  virtual ~PartListener() = default;
  virtual void begin_part(const char* name, PartKind kind) = 0;  // name: a literal
  virtual void end_part() = 0;
};

extern constinit thread_local PartListener* part_listener;  // the calling thread's; null: nobody listens

// From here to the end of the scope, with what other threads do for it meanwhile. One part ends before the next begins.
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
