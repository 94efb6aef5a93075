// SPDX-License-Identifier: Apache-2.0
//
// What all sinks that write files share: the wall-clock times of records, a cache of what a sink has found out about a
// tap's records, options, and the base classes of sinks that can be closed.
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

/// Converts ticks to wall-clock times. Reads the clock at most once a second and counts ticks in between, so that
/// records of one thread have times in their order. Not thread-safe: each sink has its own.
class RecordClock {
 public:
  /// Returns seconds since 1970.
  double SecondsAt(uint64_t ticks) {
    if (anchor_ticks_ == 0 || (ticks > anchor_ticks_ && ticks - anchor_ticks_ > second_ticks_)) Read();
    double seconds = anchor_seconds_ + static_cast<double>(static_cast<int64_t>(ticks - anchor_ticks_)) * tick_seconds_;
    if (ticks >= last_ticks_) {  // Times stay in order even if the clock is set back.
      seconds = std::max(seconds, last_seconds_);
      last_ticks_ = ticks;
      last_seconds_ = seconds;
    }
    return seconds;
  }
  /// Appends the seconds with six digits after the point.
  void Append(uint64_t ticks, std::string& out);

 private:
  void Read();

  uint64_t anchor_ticks_ = 0;
  uint64_t second_ticks_ = 0;  ///< The number of ticks in a second.
  double tick_seconds_ = 0;
  double anchor_seconds_ = 0;
  uint64_t last_ticks_ = 0;
  double last_seconds_ = 0;
};

/// Caches what a sink has found out about the records of a tap, by name and by the leaves with their types and shapes:
/// all records of one site are alike. Not thread-safe: each sink has its own.
template <typename T>
class RecordCache {
 public:
  /// Returns the entry for the record's site, or null if the site is unknown or has no number. Borrowed: valid until
  /// the next Find.
  const T* FindKnown(const Record& record) const {
    const uint64_t id = record.site->id;
    for (const Entry& entry : entries_) {
      if (id != 0 && entry.site.id == id && HasShapes(entry, record)) return &entry.value;
    }
    return nullptr;
  }
  /// Returns what `make` returned for an equal record. Errors are not cached. Borrowed: valid until the next call.
  template <typename Make>
  Result<const T*> Find(const Record& record, const Make& make) {
    const uint64_t id = record.site->id;
    if (const T* const known = FindKnown(record)) return known;
    for (Entry& entry : entries_) {
      if (entry.site.label == record.site->label && entry.site.leaf_names == record.site->leaf_names &&
          HasShapes(entry, record)) {
        entry.site.id = id;  // The tap runs in another executable, or its site has no number of its own.
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
  static constexpr size_t kMaxEntries = 32;  // Entries are searched one by one.
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

inline constexpr SinkOption kPathOption = {"path", OptionType::kPath, "needed", "the file, created if missing"};
inline constexpr SinkOption kAppendOption = {"append", OptionType::kFlag, "false",
                                             "keep what the file holds, but for a torn record at its end"};
inline constexpr SinkOption kFsyncOption = {"fsync", OptionType::kText, "never",
                                            "`never`, after each `batch`, or at most every so many seconds"};
inline constexpr SinkOption kRotateOption = {"rotate_bytes", OptionType::kInteger, "never",
                                             "a file that would become larger is renamed to PATH.1", 1};
inline constexpr SinkOption kKeepOption = {"keep", OptionType::kInteger,           "all", "how many renamed files stay",
                                           1,      std::numeric_limits<int>::max()};

/// Returns the option `fsync` in the form of FileOptions. InvalidArgument for a value of another form.
Result<double> FsyncSeconds(const SinkOptions& options);

/// Returns all file options. InvalidArgument for a contradictory combination.
Result<FileOptions> FileOptionsOf(const SinkOptions& options);

/// A sink that writes files and can be closed.
class WritingSink : public Sink {
 public:
  using Sink::Sink;
  /// Writes what the sink holds, and closes its files. Later records are errors; closing again does nothing.
  /// Thread-safe.
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
  /// Appends a whole record, or returns an error.
  virtual Status Format(const Record& record, std::string& bytes) = 0;
  FileOutput& file() { return *file_; }
  RecordClock& clock() { return clock_; }

 private:
  const std::unique_ptr<FileOutput> file_;
  RecordClock clock_;
};

/// Makes a file sink write what it holds, and close its file; later records are errors. InvalidArgument for any other
/// callback. Thread-safe.
CALLOUT_EXPORT Status CloseFile(Callback& sink);

}  // namespace callout::internal
