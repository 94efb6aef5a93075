// SPDX-License-Identifier: Apache-2.0
//
// A table of entries by name. An entry stays when nobody holds it any more, so that statistics outlive the objects that
// they describe. A full table drops such entries, so that a program that always makes new names does not fill the
// memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/fork_mutex.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

/// A bounded table from names to shared entries. Thread-safe.
template <typename T>
class NameTable {
 public:
  static constexpr size_t kMaxNames = 4096;

  /// Returns the entry of `name`, made if needed. Beyond kMaxNames, entries that nobody holds are removed.
  std::shared_ptr<T> Find(const std::string& name) {
    MutexLock lock(mutex_);
    if (const auto it = by_name_.find(name); it != by_name_.end()) return it->second;
    if (by_name_.size() >= kMaxNames) {
      std::erase_if(by_name_, [](const auto& entry) { return entry.second.use_count() == 1; });
    }
    return by_name_.emplace(name, std::make_shared<T>()).first->second;
  }

  /// Returns all entries, sorted by name.
  std::vector<std::pair<std::string, std::shared_ptr<T>>> All() const {
    MutexLock lock(mutex_);
    return {by_name_.begin(), by_name_.end()};
  }

  /// Removes entries that nobody holds, and calls `clear` for the others. Applies to all names, or only to `name`.
  template <typename Clear>
  void Reset(const std::optional<std::string>& name, Clear&& clear) {
    MutexLock lock(mutex_);
    const auto is_meant = [&](const std::string& candidate) { return !name || candidate == *name; };
    std::erase_if(by_name_, [&](const auto& entry) { return is_meant(entry.first) && entry.second.use_count() == 1; });
    for (auto& [candidate, entry] : by_name_) {
      if (is_meant(candidate)) clear(*entry);
    }
  }

 private:
  mutable ForkMutex mutex_;
  std::map<std::string, std::shared_ptr<T>> by_name_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
