// SPDX-License-Identifier: Apache-2.0
//
// A record as it lies in a queue:
//
//   RecordHeader | callout_buffer x n | void* block x n | int64 dims | pad | data of small buffers, 16-byte aligned
//
// Large buffers lie in blocks of their own, which the receiver may keep without another copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "callout/abi.h"

namespace callout::internal {

struct TapSite;

enum class RecordKind : uint32_t {
  kValue,
  kLost,        ///< No buffers: there was no memory for them. Its producer was told.
  kRetireSite,  ///< No buffers; the site is destroyed when this comes out of its last queue.
};

/// What the consumer finds where a record may begin.
enum class RecordState : uint32_t {
  kOpen,       ///< No record, or one that is not written yet.
  kCommitted,  ///< Everything else of the record is written.
  kEnd,        ///< The next record is the first of the next chunk.
};

struct alignas(16) RecordHeader {
  std::atomic<RecordState> state{RecordState::kOpen};
  RecordKind kind;
  uint32_t bytes;  ///< In the queue's memory, this header included.
  uint32_t num_buffers;
  uint64_t charged_bytes;  ///< Counted against the queue's capacity.
  uint64_t ticket;         ///< Its place in the queue.
  uint64_t sequence;       ///< Counts values only.
  TapSite* site;
  int64_t run_id;
  uint64_t ticks;  ///< When the record was taken, see base/ticks.h.
  int32_t device_ordinal;
  uint32_t unsent;  ///< See Record.
  int64_t step;     ///< If the site's records have one.

  callout_buffer* buffers() { return reinterpret_cast<callout_buffer*>(this + 1); }
  void** blocks() { return reinterpret_cast<void**>(buffers() + num_buffers); }
  int64_t* dims() { return reinterpret_cast<int64_t*>(blocks() + num_buffers); }
};

inline constexpr size_t AlignUp(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace callout::internal
