// SPDX-License-Identifier: Apache-2.0
//
// What sinks that write a file share: the time of day at which records were taken, what a sink found out about the
// records of a tap, their options, and their place among the open files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/files/file_output.h"
#include "sinks/sink.h"

namespace callout::internal {

/// Reads the clock once a second, and counts ticks from there: records of one thread have times in their order. Not
/// thread-safe: a sink's own.
class RecordClock {
 public:
  /// Seconds since 1970.
  double SecondsAt(uint64_t ticks) {
    if (anchor_ticks_ == 0 || (ticks > anchor_ticks_ && ticks - anchor_ticks_ > second_ticks_)) Read();
    double seconds = anchor_seconds_ + static_cast<double>(static_cast<int64_t>(ticks - anchor_ticks_)) * tick_seconds_;
    if (ticks >= last_ticks_) {  // a clock that was read again, or set, does not turn the order around
      seconds = std::max(seconds, last_seconds_);
      last_ticks_ = ticks;
      last_seconds_ = seconds;
    }
    return seconds;
  }
  /// Appends them with six digits behind the point.
  void Append(uint64_t ticks, std::string& out);

 private:
  void Read();

  uint64_t anchor_ticks_ = 0;
  uint64_t second_ticks_ = 0;  ///< Ticks of a second.
  double tick_seconds_ = 0;
  double anchor_seconds_ = 0;
  uint64_t last_ticks_ = 0;
  double last_seconds_ = 0;
};

// What a sink found out about the records of a tap: those of one place in a program are all alike.

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

// What sinks that write a file share: their options, and their place among the open files.

inline constexpr SinkOption kPathOption = {"path", OptionType::kPath, "needed", "the file, created if missing"};
inline constexpr SinkOption kAppendOption = {"append", OptionType::kFlag, "false",
                                             "keep what the file holds, but for a torn record at its end"};
inline constexpr SinkOption kFsyncOption = {"fsync", OptionType::kText, "never",
                                            "`never`, after each `batch`, or at most every so many seconds"};
inline constexpr SinkOption kRotateOption = {"rotate_bytes", OptionType::kInteger, "never",
                                             "a file that would become larger is renamed to PATH.1", 1};
inline constexpr SinkOption kKeepOption = {"keep", OptionType::kInteger,           "all", "how many renamed files stay",
                                           1,      std::numeric_limits<int>::max()};

/// `fsync`, as FileOptions has it. InvalidArgument if it is none of the three.
Result<double> FsyncSeconds(const SinkOptions& options);

/// All of them. InvalidArgument if they do not go together.
Result<FileOptions> FileOptionsOf(const SinkOptions& options);

/// A sink that can be told to write what it has got, and to let go of its files.
class WritingSink : public Sink {
 public:
  using Sink::Sink;
  /// Further records are errors; again does nothing. Thread-safe.
  virtual Status Close() = 0;
};

/// A sink of one file that grows.
class FileSink : public WritingSink {
 public:
  FileSink(std::string label, std::unique_ptr<FileOutput> file)
      : WritingSink(std::move(label)), file_(std::move(file)) {}
  Status Deliver(const Record& record) override {
    return file_->Add([&](std::string& bytes) { return Format(record, bytes); });
  }
  Status Flush() override { return file_->Flush(); }
  Status Close() override { return file_->Close(); }

 protected:
  /// Appends a whole record, or says why not.
  virtual Status Format(const Record& record, std::string& bytes) = 0;
  FileOutput& file() { return *file_; }
  RecordClock& clock() { return clock_; }

 private:
  const std::unique_ptr<FileOutput> file_;
  RecordClock clock_;
};

/// Writes what a sink that writes a file has got, and lets go of the file: further records are errors.
/// InvalidArgument for any other callback. Thread-safe.
CALLOUT_EXPORT Status CloseFile(Callback& sink);

}  // namespace callout::internal
