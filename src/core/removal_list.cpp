// A lock-free list of paths, which signal handlers read.
#include "core/removal_list.h"

#include <limits.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace strobe {

struct RemovalNode {
  std::atomic<bool> taken{true};
  std::atomic<bool> named{false};
  char name[PATH_MAX];
  RemovalNode* next = nullptr;
};

namespace {

std::atomic<RemovalNode*> first_node{nullptr};  // nodes are only pushed, never removed

RemovalNode* take_node() {
  for (RemovalNode* node = first_node; node; node = node->next) {
    if (!node->taken.exchange(true)) return node;
  }
  auto* const node = new RemovalNode;
  node->next = first_node;
  while (!first_node.compare_exchange_weak(node->next, node)) {
  }
  return node;
}

}  // namespace

void RemovalEntry::set(const std::string& path) {
  clear();
  if (path.size() >= sizeof(RemovalNode::name)) return;
  node_ = take_node();
  std::memcpy(node_->name, path.c_str(), path.size() + 1);
  node_->named = true;
}

void RemovalEntry::clear() noexcept {
  if (!node_) return;
  node_->named = false;
  node_->taken = false;
  node_ = nullptr;
}

void remove_listed_files() noexcept {
  for (const RemovalNode* node = first_node; node; node = node->next) {
    if (node->named) unlink(node->name);
  }
}

}  // namespace strobe
