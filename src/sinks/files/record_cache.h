// SPDX-License-Identifier: Apache-2.0
//
// What a sink found out about the records of a tap: those of one place in a program are all alike.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "callout/status.h"
#include "core/callbacks/callback.h"

namespace callout::internal {

/// By the name, and by the leaves with their types and shapes. Not thread-safe: a sink's own.
template <typename T>
class RecordCache {
 public:
  /// What is known of the record's place, if its number is; null else. Borrowed: as of Find.
  const T* FindKnown(const Record& record) const {
    const uint64_t id = record.site->id;
    for (const Entry& entry : entries_) {
      if (id != 0 && entry.site.id == id && HasShapes(entry, record)) return &entry.value;
    }
    return nullptr;
  }
  /// What `make` returned for a record like this one, an error not being kept. Borrowed: valid until the next call.
  template <typename Make>
  Result<const T*> Find(const Record& record, const Make& make) {
    const uint64_t id = record.site->id;
    if (const T* const known = FindKnown(record)) return known;
    for (Entry& entry : entries_) {
      if (entry.site.label == record.site->label && entry.site.leaf_names == record.site->leaf_names &&
          HasShapes(entry, record)) {
        entry.site.id = id;  // another executable has the same tap, or a site without a number of its own
        return &entry.value;
      }
    }
    CALLOUT_ASSIGN_OR_RETURN(T value, make(record));
    if (entries_.size() == kMaxEntries) entries_.erase(entries_.begin());
    std::vector<int64_t> shapes;
    for (const callout_buffer& buffer : record.buffers) {
      shapes.push_back(buffer.dtype);
      shapes.push_back(buffer.rank);
      shapes.insert(shapes.end(), buffer.dims, buffer.dims + buffer.rank);
    }
    entries_.push_back({*record.site, std::move(shapes), std::move(value)});
    return &entries_.back().value;
  }

 private:
  static constexpr size_t kMaxEntries = 32;  // looked through one by one
  struct Entry {
    SiteInfo site;
    std::vector<int64_t> shapes;
    T value;
  };

  static bool HasShapes(const Entry& entry, const Record& record) {
    size_t at = 0;
    const std::vector<int64_t>& shapes = entry.shapes;
    for (const callout_buffer& buffer : record.buffers) {
      if (shapes.size() - at < 2 + size_t{buffer.rank} || shapes[at] != buffer.dtype || shapes[at + 1] != buffer.rank) {
        return false;
      }
      at += 2;
      for (uint32_t axis = 0; axis < buffer.rank; ++axis) {
        if (shapes[at++] != buffer.dims[axis]) return false;
      }
    }
    return at == shapes.size();
  }

  std::vector<Entry> entries_;
};

}  // namespace callout::internal
