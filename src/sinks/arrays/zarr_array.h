// SPDX-License-Identifier: Apache-2.0
//
// Arrays of a Zarr store that grow along their first axis (zarr-specs.readthedocs.io, version 3): what zarr.json says
// of them (regular chunks, uncompressed, little-endian), and the writers of their chunks.
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
  DType dtype = DType::kInvalid;    ///< One that StoredType returns.
  std::vector<int64_t> shape = {};  ///< Behind the rows.
  std::vector<int64_t> chunk = {};  ///< Likewise, of one writer.
  int64_t rows = 0;                 ///< Of the shape: at least those that are written.
  int64_t chunk_rows = 0;
  /// How many rows each writer has written, by its chunks' indices behind the first, "0/1".
  std::map<std::string, int64_t> written = {};
};

/// Whether a file can have as many bytes as a chunk of it.
bool HasChunkBytes(const ZarrArray& array);

/// A group's zarr.json.
std::string ZarrGroupText();

/// An array's zarr.json.
std::string ZarrArrayText(const ZarrArray& array);

/// Reads bytes that may be anything. InvalidArgument for what is no array, and for arrays that no sink writes.
CALLOUT_EXPORT Result<ZarrArray> ParseZarrArray(std::string_view text);

/// Whether it is a group's zarr.json.
CALLOUT_EXPORT bool IsZarrGroup(std::string_view text);

// An array of a Zarr store that grows: writers, one a device or a shard, write rows into chunks of their own.

/// Held while files of a folder are made or replaced that other processes make or replace too.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int fd_;
};

/// The rows of one writer. Not thread-safe.
class ZarrWriter final : public RowLog {
 public:
  /// The writer of the chunks `folder`/c/ROW/`key`.
  ZarrWriter(std::string folder, std::string key, uint64_t row_bytes, uint64_t rows, uint64_t chunk_rows, bool syncs);
  ~ZarrWriter() override;
  /// Makes what is written last, should power be lost.
  Status Sync();
  /// Closes the chunk, until the next row, where the process has many others open.
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
  uint64_t chunk_ = 0;     // that is written
  bool is_dirty_ = false;  // it was written since it was synced
};

/// Not thread-safe.
class ZarrArrayFile {
 public:
  struct Options {
    bool shared = false;  ///< Other processes write other writers.
    bool syncs = false;   ///< Chunks are synced before others are opened.
  };

  /// Makes the folder, or goes on with the array in it, which must be like `wanted`: InvalidArgument else.
  static Result<std::unique_ptr<ZarrArrayFile>> Open(const std::string& folder, ZarrArray wanted, Options options);

  /// What its rows are: InvalidArgument for another type or shape.
  Status Check(DType dtype, const std::vector<int64_t>& row) const;
  /// A row at the place of its writer: the index of its chunk along each axis behind the first.
  Status Add(const std::vector<int64_t>& writer, std::string_view row);
  /// Writes what was added, and then says in zarr.json how many rows there are.
  Status Write(bool sync);

 private:
  ZarrArrayFile(std::string folder, ZarrArray array, Options options)
      : folder_(std::move(folder)), array_(std::move(array)), options_(options) {}
  uint64_t RowBytes() const;
  ZarrWriter& WriterAt(const std::vector<int64_t>& writer);
  Status Tell(bool sync);
  Status TakeOthersRows();

  const std::string folder_;
  ZarrArray array_;
  const Options options_;
  std::map<std::vector<int64_t>, std::unique_ptr<ZarrWriter>> writers_;
  bool is_told_ = true;  // zarr.json says what array_ does
};

/// The text of a file that another process may be replacing. Errors: NotFound, InvalidArgument for a large one.
Result<std::string> ReadZarrText(const std::string& path);

/// Puts a file with this text in the place of another, at once.
Status ReplaceFile(const std::string& path, std::string_view text, bool sync);

}  // namespace callout::internal
