// SPDX-License-Identifier: Apache-2.0
//
// What a sink found out about the records of a tap: those of one place in a program are all alike.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "callbacks/callback.h"
#include "callout/status.h"

namespace callout::internal {

/// By the name, and by the leaves with their types and shapes. Not thread-safe: a sink's own.
template <typename T>
class RecordCache {
 public:
  /// What `make` returned for a record like this one, an error not being kept. Borrowed: valid until the next call.
  template <typename Make>
  Result<const T*> Find(const Record& record, const Make& make) {
    shapes_.clear();
    for (const callout_buffer& buffer : record.buffers) {
      shapes_.push_back(buffer.dtype);
      shapes_.push_back(buffer.rank);
      shapes_.insert(shapes_.end(), buffer.dims, buffer.dims + buffer.rank);
    }
    for (const Entry& entry : entries_) {
      if (entry.shapes == shapes_ && entry.site.label == record.site->label &&
          entry.site.leaf_names == record.site->leaf_names) {
        return &entry.value;
      }
    }
    CALLOUT_ASSIGN_OR_RETURN(T value, make(record));
    if (entries_.size() == kMaxEntries) entries_.erase(entries_.begin());
    entries_.push_back({*record.site, shapes_, std::move(value)});
    return &entries_.back().value;
  }

 private:
  static constexpr size_t kMaxEntries = 32;  // looked through one by one
  struct Entry {
    SiteInfo site;
    std::vector<int64_t> shapes;
    T value;
  };

  std::vector<Entry> entries_;
  std::vector<int64_t> shapes_;
};

}  // namespace callout::internal
