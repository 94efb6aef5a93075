// SPDX-License-Identifier: Apache-2.0
//
// Arrays of a Zarr store (zarr-specs.readthedocs.io, version 3) that grow along their first axis: the contents of
// zarr.json (regular chunks, uncompressed, little-endian), and the writers of chunks. Each device or shard has a
// writer, which writes rows into chunks of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/status.h"
#include "sinks/arrays/row_log.h"

namespace callout::internal {

struct ZarrArray {
  DType dtype = DType::kInvalid;    ///< A type that StoredType returns.
  std::vector<int64_t> shape = {};  ///< The extents after the axis of rows.
  std::vector<int64_t> chunk = {};  ///< The extents of one writer's part, without the axis of rows.
  int64_t rows = 0;                 ///< The extent of the axis of rows: at least as many as are written.
  int64_t chunk_rows = 0;
  /// The number of rows that each writer has written. The key is the index of the writer's chunks, without the axis of
  /// rows: "0/1".
  std::map<std::string, int64_t> written = {};
};

/// Returns whether a file can be as large as a chunk of the array.
bool HasChunkBytes(const ZarrArray& array);

/// Returns the zarr.json of a group.
std::string ZarrGroupText();

/// Returns the zarr.json of an array.
std::string ZarrArrayText(const ZarrArray& array);

/// Reads an array's zarr.json, which may hold anything. InvalidArgument if the text describes no array, or one that no
/// sink writes.
CALLOUT_EXPORT Result<ZarrArray> ParseZarrArray(std::string_view text);

/// Returns whether the text is the zarr.json of a group.
CALLOUT_EXPORT bool IsZarrGroup(std::string_view text);

/// Locks a folder against other processes while files in it are created or replaced.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int fd_;
};

/// Writes the rows of one device or shard. Not thread-safe.
class ZarrWriter final : public RowLog {
 public:
  /// Writes the chunks `folder`/c/ROW/`key`.
  ZarrWriter(std::string folder, std::string key, uint64_t row_bytes, uint64_t rows, uint64_t chunk_rows, bool syncs);
  ~ZarrWriter() override;
  /// Makes the written rows durable, in case power is lost.
  Status Sync();
  /// Closes the chunk, until the next row, if the process has many chunks open.
  void CloseIfMany();

 private:
  Result<Place> Find(uint64_t row) override;
  Status OpenChunk(uint64_t chunk);
  void CloseChunk();

  const std::string folder_;
  const std::string key_;
  const uint64_t chunk_rows_;
  const bool syncs_;
  int fd_ = -1;
  uint64_t chunk_ = 0;     // The chunk that is written.
  bool is_dirty_ = false;  // The chunk was written since the last sync.
};

/// One array, with its zarr.json and its writers. Not thread-safe.
class ZarrArrayFile {
 public:
  struct Options {
    bool shared = false;  ///< Other processes run other writers of the array.
    bool syncs = false;   ///< A chunk is synced before the next one is opened.
  };

  /// Creates the folder, or continues the array in it. InvalidArgument if the array differs from `wanted`.
  static Result<std::unique_ptr<ZarrArrayFile>> Open(const std::string& folder, ZarrArray wanted, Options options);

  /// InvalidArgument if rows have another type or shape.
  Status Check(DType dtype, const std::vector<int64_t>& row) const;
  /// Adds a row of one writer. `writer` is the index of its chunks along each axis after that of rows.
  Status Add(const std::vector<int64_t>& writer, std::string_view row);
  /// Writes the added rows, and then updates the number of rows in zarr.json.
  Status Write(bool sync);

 private:
  ZarrArrayFile(std::string folder, ZarrArray array, Options options)
      : folder_(std::move(folder)), array_(std::move(array)), options_(options) {}
  uint64_t RowBytes() const;
  ZarrWriter& WriterAt(const std::vector<int64_t>& writer);
  Status Publish(bool sync);
  Status TakeOthersRows();

  const std::string folder_;
  ZarrArray array_;
  const Options options_;
  std::map<std::vector<int64_t>, std::unique_ptr<ZarrWriter>> writers_;
  bool is_published_ = true;  // zarr.json agrees with array_.
};

/// Reads a file that another process may be replacing. Errors: NotFound; InvalidArgument for a large file.
Result<std::string> ReadZarrText(const std::string& path);

/// Replaces a file atomically by one with this text.
Status ReplaceFile(const std::string& path, std::string_view text, bool sync);

}  // namespace callout::internal
