// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/zarr_array.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "core/base/cat.h"
#include "core/base/platform.h"
#include "core/encoding/json.h"
#include "core/frame/elements.h"
#include "sinks/arrays/stored_type.h"

namespace callout::internal {
namespace {

std::string Numbers(int64_t first, std::span<const int64_t> rest) {
  std::string text = Cat("[", first);
  for (const int64_t number : rest) text += Cat(", ", number);
  return text + "]";
}

// Returns the fill value, which elements that were never written read as. The system fills holes in files with zeros,
// so the fill value is zero as well.
const char* FillOf(DType dtype) {
  const DTypeKind kind = RowOf(dtype).kind;
  return kind == DTypeKind::kBool      ? "false"
         : kind == DTypeKind::kComplex ? "[0.0, 0.0]"
         : kind == DTypeKind::kFloat   ? "0.0"
                                       : "0";
}

Status Malformed(const std::string& what) {
  return InvalidArgument("its zarr.json has no " + what + " that a sink writes");
}

const Json* FindPath(const Json& json, std::initializer_list<const char*> names) {
  const Json* at = &json;
  for (const char* name : names) {
    at = at->Find(name);
    if (at == nullptr) return nullptr;
  }
  return at;
}

bool HasText(const Json& json, std::initializer_list<const char*> names, std::string_view text) {
  const Json* const at = FindPath(json, names);
  return at != nullptr && at->kind == Json::Kind::kString && at->text == text;
}

// Returns the first number, and the numbers after it.
std::optional<std::pair<int64_t, std::vector<int64_t>>> Axes(const Json* list, int64_t least) {
  if (list == nullptr || list->kind != Json::Kind::kArray) return std::nullopt;
  if (list->items.empty() || list->items.size() > kMaxStoredRank) return std::nullopt;
  std::pair<int64_t, std::vector<int64_t>> axes;
  for (const Json& item : list->items) {
    const auto number = item.Integer();
    if (!number || *number < least) return std::nullopt;
    axes.second.push_back(*number);
  }
  axes.first = axes.second.front();
  axes.second.erase(axes.second.begin());
  return axes;
}

std::optional<DType> TypeNamed(const Json* name) {
  if (name == nullptr || name->kind != Json::Kind::kString) return std::nullopt;
  for (const DTypeRow& row : kDTypeRows) {
    const bool is_stored = row.bits >= 8 && row.kind != DTypeKind::kToken && row.kind != DTypeKind::kUnknown &&
                           (row.kind != DTypeKind::kFloat || row.bits >= 32 || row.dtype == DType::kFloat16);
    if (is_stored && row.numpy_name == name->text) return row.dtype;
  }
  return std::nullopt;
}

// Returns whether elements that were never written read as zero; see FillOf.
bool HasZeroFill(const Json& json, DType dtype) {
  const Json* const fill = json.Find("fill_value");
  if (fill == nullptr) return false;
  const DTypeKind kind = RowOf(dtype).kind;
  const auto is_zero = [](const Json& one) {
    return one.kind == Json::Kind::kNumber && one.number == 0 && !one.text.starts_with('-');
  };
  if (kind == DTypeKind::kBool) return fill->kind == Json::Kind::kBool && !fill->boolean;
  if (kind != DTypeKind::kComplex) return is_zero(*fill);
  return fill->kind == Json::Kind::kArray && fill->items.size() == 2 && std::ranges::all_of(fill->items, is_zero);
}

bool HasPlainCodecs(const Json& json) {
  const Json* const codecs = json.Find("codecs");
  if (codecs == nullptr || codecs->items.size() != 1 || !HasText(codecs->items[0], {"name"}, "bytes")) return false;
  const Json* const endian = FindPath(codecs->items[0], {"configuration", "endian"});
  return endian == nullptr || endian->text == "little";
}

// Returns whether the key consists of the indices of a chunk after the first one, as in "0/1".
bool IsWriter(std::string_view key, size_t axes) {
  size_t count = 0;
  while (!key.empty()) {
    const std::string_view index = key.substr(0, key.find('/'));
    const bool is_number = !index.empty() && index.find_first_not_of("0123456789") == std::string_view::npos;
    if (!is_number || (index.size() > 1 && index.front() == '0')) return false;
    ++count;
    key.remove_prefix(index.size());
    if (key == "/") return false;
    key.remove_prefix(key.empty() ? 0 : 1);
  }
  return count == axes;
}

}  // namespace

bool HasChunkBytes(const ZarrArray& array) {
  int64_t bytes = BitWidth(array.dtype) / 8;
  if (__builtin_mul_overflow(bytes, array.chunk_rows, &bytes)) return false;
  return std::none_of(array.chunk.begin(), array.chunk.end(),
                      [&](int64_t extent) { return __builtin_mul_overflow(bytes, extent, &bytes); });
}

std::string ZarrGroupText() { return "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": {}}\n"; }

std::string ZarrArrayText(const ZarrArray& array) {
  std::string text = "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": " + Numbers(array.rows, array.shape) +
                     ", \"data_type\": \"" + std::string(RowOf(array.dtype).numpy_name) +
                     "\", \"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": " +
                     Numbers(array.chunk_rows, array.chunk) +
                     "}}, \"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": {\"separator\": \"/\"}}, "
                     "\"fill_value\": " +
                     FillOf(array.dtype) +
                     ", \"codecs\": [{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}], "
                     "\"attributes\": {\"rows\": {";
  bool is_first = true;
  for (const auto& [writer, rows] : array.written) {
    if (!std::exchange(is_first, false)) text += ", ";
    AppendJsonString(writer, text);
    text += Cat(": ", rows);
  }
  return text + "}}}\n";
}

Result<ZarrArray> ParseZarrArray(std::string_view text) {
  const auto json = ParseJson(text);
  if (!json || !HasText(*json, {"node_type"}, "array")) return InvalidArgument("its zarr.json is none of an array");
  const Json* const format = json->Find("zarr_format");
  if (format == nullptr || format->Integer() != 3) return Malformed("zarr_format");
  const auto dtype = TypeNamed(json->Find("data_type"));
  if (!dtype) return Malformed("data_type");
  const auto shape = Axes(json->Find("shape"), 0);
  const auto chunk = Axes(FindPath(*json, {"chunk_grid", "configuration", "chunk_shape"}), 1);
  if (!shape) return Malformed("shape");
  if (!chunk || chunk->second.size() != shape->second.size() || !HasText(*json, {"chunk_grid", "name"}, "regular")) {
    return Malformed("chunk_grid");
  }
  if (!HasText(*json, {"chunk_key_encoding", "name"}, "default")) return Malformed("chunk_key_encoding");
  if (!HasPlainCodecs(*json)) return Malformed("codecs");
  if (!HasZeroFill(*json, *dtype)) return Malformed("fill_value");
  ZarrArray array{*dtype, shape->second, chunk->second, shape->first, chunk->first, {}};
  if (!HasChunkBytes(array)) return Malformed("chunk_grid");
  const Json* const written = FindPath(*json, {"attributes", "rows"});
  if (written == nullptr || written->kind != Json::Kind::kObject) return Malformed("rows");
  for (const auto& [writer, rows] : written->members) {
    const auto number = rows.Integer();
    if (!IsWriter(writer, array.chunk.size()) || !number || *number < 0 || *number > array.rows) {
      return Malformed("rows");
    }
    array.written[writer] = *number;
  }
  return array;
}

bool IsZarrGroup(std::string_view text) {
  const auto json = ParseJson(text);
  return json && HasText(*json, {"node_type"}, "group");
}

namespace {

Status SystemFailure(const std::string& path) { return InternalError("'" + path + "': " + std::strerror(errno)); }

std::string KeyOf(const std::vector<int64_t>& writer) { return Join(writer, "/"); }

constexpr int kMostOpenChunks = 128;
std::atomic<int> open_chunks = 0;  // Counts the chunks of all sinks.

}  // namespace

FolderLock::FolderLock(const std::string& folder) : fd_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  while (fd_ >= 0 && flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  flock(fd_, LOCK_UN);  // Unlocks explicitly, because a child that another thread forked has a copy of the descriptor.
  close(fd_);
}

Result<std::string> ReadZarrText(const std::string& path) {
  constexpr off_t kMaxText = 64 << 20;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Status(StatusCode::kNotFound, "'" + path + "': " + std::strerror(errno));
  struct stat file;
  std::string text;
  Status status = fstat(fd, &file) == 0 ? OkStatus() : SystemFailure(path);
  if (status.ok() && (!S_ISREG(file.st_mode) || file.st_size > kMaxText)) {
    status = InvalidArgument("'" + path + "' is no zarr.json");
  }
  if (status.ok()) {
    text.resize(static_cast<size_t>(file.st_size));
    const ssize_t n = pread(fd, text.data(), text.size(), 0);
    if (n != static_cast<ssize_t>(text.size())) status = SystemFailure(path);
  }
  close(fd);
  if (!status.ok()) return status;
  return text;
}

Status ReplaceFile(const std::string& path, std::string_view text, bool sync) {
  const std::string next = Cat(path, ".", getpid(), ".next");
  const int fd = open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return SystemFailure(next);
  Status status = WriteBytesAt(fd, 0, text);
  if (status.ok() && sync && !SyncBytes(fd)) status = SystemFailure(next);
  close(fd);
  if (status.ok() && std::rename(next.c_str(), path.c_str()) != 0) status = SystemFailure(path);
  if (!status.ok()) unlink(next.c_str());
  return status;
}

ZarrWriter::ZarrWriter(std::string folder, std::string key, uint64_t row_bytes, uint64_t rows, uint64_t chunk_rows,
                       bool syncs)
    : RowLog(row_bytes, rows),
      folder_(std::move(folder)),
      key_(std::move(key)),
      chunk_rows_(chunk_rows),
      syncs_(syncs) {}

ZarrWriter::~ZarrWriter() { CloseChunk(); }

void ZarrWriter::CloseChunk() {
  if (fd_ < 0) return;
  close(std::exchange(fd_, -1));
  open_chunks.fetch_sub(1, std::memory_order_relaxed);
}

void ZarrWriter::CloseIfMany() {
  if (fd_ >= 0 && open_chunks.load(std::memory_order_relaxed) > kMostOpenChunks) CloseChunk();
}

Status ZarrWriter::Sync() {
  if (!is_dirty_) return OkStatus();
  if (fd_ < 0) CALLOUT_RETURN_IF_ERROR(OpenChunk(chunk_));
  is_dirty_ = false;
  return SyncBytes(fd_) ? OkStatus() : SystemFailure(folder_);
}

// A chunk file gets its full size before its first row is written. The part that is not written takes no disk.
Status ZarrWriter::OpenChunk(uint64_t chunk) {
  if (syncs_ && chunk != chunk_) CALLOUT_RETURN_IF_ERROR(Sync());
  CloseChunk();
  const std::string path = Cat(folder_, "/c/", chunk, key_.empty() ? "" : "/" + key_);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return InternalError("'" + path + "': " + error.message());
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return SystemFailure(path);
  if (ftruncate(fd, static_cast<off_t>(chunk_rows_ * row_bytes())) != 0) {
    Status status = SystemFailure(path);
    struct stat file;
    if (fstat(fd, &file) == 0 && file.st_size == 0) unlink(path.c_str());  // Readers treat a missing file as zeros.
    close(fd);
    return status;
  }
  open_chunks.fetch_add(1, std::memory_order_relaxed);
  fd_ = fd;
  chunk_ = chunk;
  return OkStatus();
}

Result<RowLog::Place> ZarrWriter::Find(uint64_t row) {
  const uint64_t chunk = row / chunk_rows_, within = row % chunk_rows_;
  if (fd_ < 0 || chunk_ != chunk) CALLOUT_RETURN_IF_ERROR(OpenChunk(chunk));
  is_dirty_ = true;
  return Place{fd_, within * row_bytes(), chunk_rows_ - within};
}

Result<std::unique_ptr<ZarrArrayFile>> ZarrArrayFile::Open(const std::string& folder, ZarrArray wanted,
                                                           Options options) {
  if (!HasChunkBytes(wanted)) {
    return InvalidArgument(
        Cat(wanted.chunk_rows, " rows of ", TypeText(wanted.dtype, wanted.chunk), " are more than a chunk can have"));
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return InternalError("'" + folder + "': " + error.message());
  const FolderLock lock(folder);
  const Result<std::string> text = ReadZarrText(folder + "/zarr.json");
  if (!text.ok() && text.status().code() != StatusCode::kNotFound) return text.status();
  std::unique_ptr<ZarrArrayFile> file(new ZarrArrayFile(folder, std::move(wanted), options));
  if (!text.ok()) {
    CALLOUT_RETURN_IF_ERROR(ReplaceFile(folder + "/zarr.json", ZarrArrayText(file->array_), /*sync=*/false));
    return file;
  }
  CALLOUT_ASSIGN_OR_RETURN(ZarrArray there, ParseZarrArray(*text));
  if (there.dtype != file->array_.dtype || there.chunk != file->array_.chunk) {
    return InvalidArgument("a row of it is " + TypeText(file->array_.dtype, file->array_.chunk) + ", expected " +
                           TypeText(there.dtype, there.chunk) + " as in the chunks that are there");
  }
  for (size_t i = 0; i < there.shape.size(); ++i) there.shape[i] = std::max(there.shape[i], file->array_.shape[i]);
  there.rows = std::max(there.rows, file->array_.rows);
  file->array_ = std::move(there);
  return file;
}

Status ZarrArrayFile::Check(DType dtype, const std::vector<int64_t>& row) const {
  const auto at_least_one = [](std::vector<int64_t> extents) {
    for (int64_t& extent : extents) extent = std::max<int64_t>(extent, 1);
    return extents;
  };
  if (dtype == array_.dtype && at_least_one(row) == array_.chunk) return OkStatus();
  return InvalidArgument("a row of it is " + TypeText(dtype, row) + ", expected " +
                         TypeText(array_.dtype, array_.chunk) + " as the rows before");
}

uint64_t ZarrArrayFile::RowBytes() const {
  auto bytes = static_cast<uint64_t>(BitWidth(array_.dtype) / 8);
  for (const int64_t extent : array_.chunk) bytes *= static_cast<uint64_t>(extent);
  return bytes;
}

ZarrWriter& ZarrArrayFile::WriterAt(const std::vector<int64_t>& writer) {
  std::unique_ptr<ZarrWriter>& found = writers_[writer];
  if (found == nullptr) {
    const std::string key = KeyOf(writer);
    const auto written = array_.written.find(key);
    const int64_t rows = written == array_.written.end() ? 0 : written->second;
    found = std::make_unique<ZarrWriter>(folder_, key, RowBytes(), static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(array_.chunk_rows), options_.syncs);
  }
  return *found;
}

Status ZarrArrayFile::Add(const std::vector<int64_t>& writer, std::string_view row) {
  is_published_ = false;
  for (size_t i = 0; i < writer.size(); ++i) {
    int64_t end = 0;
    if (__builtin_mul_overflow(writer[i] + 1, array_.chunk[i], &end))
      return InvalidArgument("its place is too far away");
    if (array_.shape[i] > 0 || writer[i] > 0) array_.shape[i] = std::max(array_.shape[i], end);
  }
  ZarrWriter& rows = WriterAt(writer);
  // Chunks have elements even along an axis that has none.
  Status status = row.empty() ? rows.Add(std::string(RowBytes(), '\0')) : rows.Add(row);
  rows.CloseIfMany();
  return status;
}

Status ZarrArrayFile::TakeOthersRows() {
  CALLOUT_ASSIGN_OR_RETURN(const std::string text, ReadZarrText(folder_ + "/zarr.json"));
  CALLOUT_ASSIGN_OR_RETURN(const ZarrArray there, ParseZarrArray(text));
  if (there.shape.size() != array_.shape.size()) return InvalidArgument("it has got another shape meanwhile");
  for (size_t i = 0; i < there.shape.size(); ++i) array_.shape[i] = std::max(array_.shape[i], there.shape[i]);
  array_.rows = std::max(array_.rows, there.rows);
  for (const auto& [key, rows] : there.written) {
    int64_t& own = array_.written[key];
    own = std::max(own, rows);
  }
  return OkStatus();
}

Status ZarrArrayFile::Publish(bool sync) {
  if (options_.shared) {
    const FolderLock lock(folder_);
    CALLOUT_RETURN_IF_ERROR(TakeOthersRows());
    return ReplaceFile(folder_ + "/zarr.json", ZarrArrayText(array_), sync);
  }
  return ReplaceFile(folder_ + "/zarr.json", ZarrArrayText(array_), sync);
}

Status ZarrArrayFile::Write(bool sync) {
  if (is_published_) return OkStatus();
  Status status = OkStatus();
  for (const auto& [writer, rows] : writers_) {
    Status written = rows->Write();
    if (written.ok() && sync) written = rows->Sync();
    rows->CloseIfMany();
    if (status.ok()) status = std::move(written);
    const auto count = static_cast<int64_t>(rows->rows());
    array_.written[KeyOf(writer)] = count;
    array_.rows = std::max(array_.rows, count);
  }
  Status published = Publish(sync);
  is_published_ = published.ok();
  return status.ok() ? std::move(published) : std::move(status);
}

}  // namespace callout::internal
