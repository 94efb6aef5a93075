// SPDX-License-Identifier: Apache-2.0
//
// The sink that writes one .npy file for each leaf, with one row for each record. See docs/arrays_on_disk.md.
#include "sinks/arrays/npy_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/cat.h"
#include "core/base/log.h"
#include "core/base/platform.h"
#include "core/base/thread_annotations.h"
#include "core/base/ticks.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"
#include "sinks/arrays/row_log.h"
#include "sinks/arrays/stored_type.h"
#include "sinks/each_sink_kind.h"
#include "sinks/files/file_sink.h"
#include "sinks/files/open_files.h"

namespace callout::internal {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kBegin = 10;  // The magic, the version and the length.
constexpr size_t kRowDigits = 20;

constexpr DType kNpyTypes[] = {DType::kBool,    DType::kInt8,    DType::kInt16,     DType::kInt32,     DType::kInt64,
                               DType::kUint8,   DType::kUint16,  DType::kUint32,    DType::kUint64,    DType::kFloat16,
                               DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};

std::string Descr(DType dtype) {
  const DTypeRow& row = RowOf(dtype);
  const char kind = row.kind == DTypeKind::kBool       ? 'b'
                    : row.kind == DTypeKind::kSigned   ? 'i'
                    : row.kind == DTypeKind::kUnsigned ? 'u'
                    : row.kind == DTypeKind::kFloat    ? 'f'
                                                       : 'c';
  return Cat(row.bits == 8 ? "|" : "<", kind, row.bits / 8);
}

std::string Dictionary(const NpyHead& head) {
  std::string text = "{'descr': '" + Descr(head.dtype) + "', 'fortran_order': False, 'shape': (";
  for (const int64_t extent : head.shape) text += Cat(extent, ", ");
  if (head.shape.size() > 1) text.resize(text.size() - 2);
  if (head.shape.size() == 1) text.pop_back();
  return text + "), }";
}

// Returns the text between `name` and `end`.
std::optional<std::string_view> Between(std::string_view text, std::string_view name, std::string_view end) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + name.size());
  const size_t length = text.find(end);
  return length == std::string_view::npos ? std::nullopt : std::optional(text.substr(0, length));
}

std::optional<std::vector<int64_t>> ParseShape(std::string_view text) {
  std::vector<int64_t> shape;
  while (!text.empty()) {
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0 || shape.size() == kMaxStoredRank) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    shape.push_back(extent);
    if (!text.empty() && !text.starts_with(",")) return std::nullopt;
    text.remove_prefix(std::min<size_t>(text.size(), text.starts_with(", ") ? 2 : 1));
  }
  return shape;
}

}  // namespace

Result<std::string> NpyHeadText(const NpyHead& head) {
  constexpr size_t kAlignment = 64;
  const std::string dictionary = Dictionary(head);
  size_t bytes = head.bytes;
  if (bytes == 0) {
    const size_t most = kBegin + dictionary.size() - std::to_string(head.shape.at(0)).size() + kRowDigits + 1;
    bytes = (most + kAlignment - 1) / kAlignment * kAlignment;
  }
  if (kBegin + dictionary.size() + 1 > bytes || bytes - kBegin > UINT16_MAX) {
    return InvalidArgument(Cat("its head of ", bytes, " bytes has no room for ", dictionary));
  }
  const auto length = static_cast<uint16_t>(bytes - kBegin);
  std::string text(kMagic);
  text += '\1';
  text += '\0';
  text.append(reinterpret_cast<const char*>(&length), sizeof(length));
  text += dictionary;
  text.resize(bytes - 1, ' ');
  return text + '\n';
}

Result<NpyHead> ParseNpyHead(std::string_view bytes) {
  uint16_t length = 0;
  if (bytes.size() < kBegin || !bytes.starts_with(kMagic)) return InvalidArgument("it is no .npy file");
  if (bytes[kMagic.size()] != 1) return InvalidArgument("it is a .npy file of another version than 1");
  std::memcpy(&length, bytes.data() + kMagic.size() + 2, sizeof(length));
  if (bytes.size() < kBegin + length) return InvalidArgument("its head is not whole");
  const std::string_view text = bytes.substr(kBegin, length);
  const auto descr = Between(text, "'descr': '", "'");
  const auto order = Between(text, "'fortran_order': ", ",");
  const auto list = Between(text, "'shape': (", ")");
  const auto shape = list ? ParseShape(*list) : std::nullopt;
  if (!descr || !order || !shape) return InvalidArgument("its head is malformed");
  if (*order != "False") return InvalidArgument("its array is in Fortran's order");
  for (const DType dtype : kNpyTypes) {
    if (Descr(dtype) == *descr) return NpyHead{dtype, *shape, kBegin + length};
  }
  return InvalidArgument("its elements are of type '" + std::string(*descr) + "', which no sink writes");
}

namespace {

constexpr std::string_view kLeafMark = "{leaf}";

// Writes the head, and sets `head.bytes` to its length.
Status WriteHead(int fd, NpyHead& head) {
  CALLOUT_ASSIGN_OR_RETURN(const std::string text, NpyHeadText(head));
  head.bytes = text.size();
  return WriteBytesAt(fd, 0, text);
}

/// A .npy file, which grows by one row for each record.
class NpyFile final : public RowLog {
 public:
  NpyFile(std::string path, int fd, NpyHead head, uint64_t row_bytes, double fsync_seconds)
      : RowLog(row_bytes, static_cast<uint64_t>(head.shape.at(0))),
        path_(std::move(path)),
        fd_(fd),
        head_(std::move(head)),
        told_rows_(rows()),
        fsync_seconds_(fsync_seconds),
        synced_ns_(SteadyNanoseconds()) {}
  ~NpyFile() override {
    if (forks_ == OpenFiles::Get().forks()) CloseLocked(fd_);  // A forked child has closed its copy.
  }

  const NpyHead& head() const { return head_; }

  /// Writes the rows first, and only then a head that counts them.
  Status WriteAll(bool at_end) {
    Status written = Write();
    if (rows() != told_rows_) {
      Status published = PublishRows();
      if (written.ok()) written = std::move(published);
      is_dirty_ = true;
    }
    const int64_t now = SteadyNanoseconds();
    const bool is_due = at_end || static_cast<double>(now - synced_ns_) * 1e-9 >= fsync_seconds_;
    if (written.ok() && fsync_seconds_ >= 0 && is_dirty_ && is_due) {
      synced_ns_ = now;
      is_dirty_ = false;
      if (!SyncBytes(fd_)) written = InternalError(std::strerror(errno));
    }
    return written.ok() ? written : InternalError("cannot write to '" + path_ + "': " + std::string(written.message()));
  }

 private:
  // Extends the file where rows at its end were lost, so that they read as zeros.
  Status PublishRows() {
    struct stat file;
    const auto needed = static_cast<off_t>(head_.bytes + rows() * row_bytes());
    if (fstat(fd_, &file) != 0 || (file.st_size < needed && ftruncate(fd_, needed) != 0)) {
      return InternalError(std::strerror(errno));
    }
    head_.shape[0] = static_cast<int64_t>(rows());
    CALLOUT_RETURN_IF_ERROR(WriteHead(fd_, head_));
    told_rows_ = rows();
    return OkStatus();
  }

  Result<Place> Find(uint64_t row) override {
    return Place{fd_, head_.bytes + row * row_bytes(), std::numeric_limits<uint64_t>::max()};
  }

  const std::string path_;
  const int fd_;
  const int forks_ = OpenFiles::Get().forks();
  NpyHead head_;
  uint64_t told_rows_;  // The number of rows in the head on disk.
  const double fsync_seconds_;
  int64_t synced_ns_;
  bool is_dirty_ = false;
};

// A file that was opened and has not received a record.
struct NewNpy {
  LockedFile file;
  NpyHead head;  // Describes what the file holds.
};

class NpySink final : public WritingSink {
 public:
  NpySink(std::string label, std::string path, FileOptions options)
      : WritingSink(std::move(label)), path_(std::move(path)), options_(options), forks_(OpenFiles::Get().forks()) {}
  ~NpySink() override {
    const Status status = Close();
    if (!status.ok()) Log(LogLevel::kError, status.message());
  }

  /// Opens the file at once if one path serves all leaves.
  Status Open() {
    MutexLock lock(mutex_);
    if (path_.find(kLeafMark) != std::string::npos) return OkStatus();
    CALLOUT_ASSIGN_OR_RETURN(first_, OpenFile(path_));
    return OkStatus();
  }

  Status Deliver(const Record& record) override {
    if (IsInChild()) return FailedPrecondition("cannot write to '" + path_ + "' in a forked child");
    MutexLock lock(mutex_);
    if (is_closed_) return FailedPrecondition("cannot write to '" + path_ + "': it is closed");
    Status status = Add(record);
    if (status.code() != StatusCode::kInvalidArgument) return status;
    return InvalidArgument("cannot write '" + record.site->label + "' to '" + path_ +
                           "': " + std::string(status.message()));
  }

  Status Flush() override { return WriteAll(/*at_end=*/false); }

  Status Close() override {
    if (IsInChild()) return OkStatus();
    Status status = WriteAll(/*at_end=*/true);
    MutexLock lock(mutex_);
    is_closed_ = true;
    files_.clear();
    CloseLocked(std::exchange(first_.file.fd, -1));
    return status;
  }

 private:
  // Must be checked before taking `mutex_`, which another thread may have held during the fork.
  bool IsInChild() const { return forks_ != OpenFiles::Get().forks(); }

  Result<NewNpy> OpenFile(const std::string& path) CALLOUT_REQUIRES(mutex_) {
    const std::string cannot = "cannot open '" + path + "' for an array";
    CALLOUT_ASSIGN_OR_RETURN(LockedFile file, OpenLocked(path, cannot));
    NewNpy made{file, {}};
    Status status = file.is_regular ? Prepare(path, made) : InvalidArgument("only regular files hold arrays");
    if (status.ok()) return made;
    CloseLocked(file.fd);
    return status.WithMessage(cannot + ": " + std::string(status.message()));
  }

  // Clears O_APPEND, because rows are written by position.
  Status Prepare(const std::string& path, NewNpy& made) CALLOUT_REQUIRES(mutex_) {
    const int fd = made.file.fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_APPEND) != 0) return InternalError(std::strerror(errno));
    if (!options_.append) return ftruncate(fd, 0) == 0 ? OkStatus() : InternalError(std::strerror(errno));
    if (made.file.size == 0) return OkStatus();
    const int reader = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    std::string bytes(kMaxNpyHead, '\0');
    const ssize_t n = pread(reader, bytes.data(), bytes.size(), 0);
    close(reader);
    CALLOUT_ASSIGN_OR_RETURN(made.head,
                             ParseNpyHead(std::string_view(bytes).substr(0, n < 0 ? 0 : static_cast<size_t>(n))));
    if (made.head.shape.empty()) return InvalidArgument("its array has no rows to go on behind");
    uint64_t needed = static_cast<uint64_t>(BitWidth(made.head.dtype) / 8);
    for (const int64_t extent : made.head.shape) {
      if (__builtin_mul_overflow(needed, static_cast<uint64_t>(extent), &needed)) needed = made.file.size;
    }
    if (needed <= made.file.size - made.head.bytes) return OkStatus();
    return InvalidArgument("it has less bytes than its head tells");
  }

  Status Add(const Record& record) CALLOUT_REQUIRES(mutex_) {
    const bool for_each = path_.find(kLeafMark) != std::string::npos;
    if (record.buffers.size() != 1 && !for_each) {
      return InvalidArgument(Cat("the value has ", record.buffers.size(),
                                 " leaves, and a file takes one: write {leaf} in the path, for a file each"));
    }
    if (device_ && *device_ != record.device_ordinal) {
      return InvalidArgument(Cat("rows of device ", *device_, " and of device ", record.device_ordinal,
                                 " would mix: use a sink each, or Zarr"));
    }
    device_ = record.device_ordinal;
    std::vector<NpyFile*> files;
    // Opens all files before any row is added, so that no leaf is stored without the others.
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      CALLOUT_ASSIGN_OR_RETURN(NpyFile * file, FileOf(record.site->leaf_names[i], record.buffers[i], for_each));
      files.push_back(file);
    }
    Status first = OkStatus();
    for (size_t i = 0; i < files.size(); ++i) {
      const std::string_view row = StoredElements(record.buffers[i], files[i]->head().dtype, converted_);
      Status status = files[i]->Add(row);
      if (first.ok()) first = std::move(status);
    }
    return first.ok() ? first : CannotWrite(first);
  }

  Status CannotWrite(const Status& why) const {
    return InternalError("cannot write to '" + path_ + "': " + std::string(why.message()));
  }

  Result<NpyFile*> FileOf(const std::string& leaf, const callout_buffer& buffer, bool for_each)
      CALLOUT_REQUIRES(mutex_) {
    const std::string name = leaf.empty() || !for_each ? "value" : leaf;
    const auto it = files_.find(name);
    if (it == files_.end()) return NewFile(name, buffer, for_each);
    CALLOUT_RETURN_IF_ERROR(CheckType(name, buffer, it->second->head()));
    return it->second.get();
  }

  static Status CheckType(const std::string& leaf, const callout_buffer& buffer, const NpyHead& head) {
    CALLOUT_ASSIGN_OR_RETURN(const DType dtype, StoredType(static_cast<DType>(buffer.dtype)));
    const std::vector<int64_t> shape(buffer.dims, buffer.dims + buffer.rank);
    const std::vector<int64_t> expected(head.shape.begin() + 1, head.shape.end());
    if (dtype == head.dtype && shape == expected) return OkStatus();
    return InvalidArgument("'" + leaf + "' is " + TypeText(dtype, shape) + ", expected " +
                           TypeText(head.dtype, expected) + " as the rows before");
  }

  Result<NpyFile*> NewFile(const std::string& leaf, const callout_buffer& buffer, bool for_each)
      CALLOUT_REQUIRES(mutex_) {
    std::string path = path_;
    if (for_each) {
      if (leaf.find('/') != std::string::npos || leaf.find('\0') != std::string::npos || leaf.starts_with('.')) {
        return InvalidArgument("'" + leaf + "' is no name of a file");
      }
      for (size_t at = path.find(kLeafMark); at != std::string::npos; at = path.find(kLeafMark, at + leaf.size())) {
        path.replace(at, kLeafMark.size(), leaf);
      }
    }
    CALLOUT_ASSIGN_OR_RETURN(const DType dtype, StoredType(static_cast<DType>(buffer.dtype)));
    CALLOUT_RETURN_IF_ERROR(CheckStoredRank(1 + size_t{buffer.rank}));
    NewNpy made;
    if (for_each) {
      CALLOUT_ASSIGN_OR_RETURN(made, OpenFile(path));
    } else {
      made = std::exchange(first_, {});
    }
    const bool goes_on = made.head.bytes > 0;
    Status status = OkStatus();
    if (goes_on) {
      status = CheckType(leaf, buffer, made.head);
    } else {
      made.head.dtype = dtype;
      made.head.shape.assign(buffer.dims, buffer.dims + buffer.rank);
      made.head.shape.insert(made.head.shape.begin(), 0);
    }
    if (status.ok()) {
      status = WriteHead(made.file.fd, made.head);
      if (status.code() == StatusCode::kInternal) status = CannotWrite(status);
    }
    if (!status.ok()) {  // The next record starts over.
      if (!goes_on) made.head = {};
      if (!goes_on && ftruncate(made.file.fd, 0) != 0) Log(LogLevel::kWarning, "cannot empty '" + path + "'");
      if (for_each) {
        CloseLocked(made.file.fd);
      } else {
        first_ = std::move(made);
      }
      return status;
    }
    auto file = std::make_unique<NpyFile>(path, made.file.fd, std::move(made.head), StoredBytes(buffer, dtype),
                                          options_.fsync_seconds);
    return files_.emplace(leaf, std::move(file)).first->second.get();
  }

  Status WriteAll(bool at_end) {
    if (IsInChild()) return OkStatus();
    MutexLock lock(mutex_);
    Status status = OkStatus();
    for (const auto& [leaf, file] : files_) {
      Status written = file->WriteAll(at_end);
      if (status.ok()) status = std::move(written);
    }
    return status;
  }

  const std::string path_;
  const FileOptions options_;
  const int forks_;

  Mutex mutex_;  // Close and Deliver run on different threads.
  bool is_closed_ CALLOUT_GUARDED_BY(mutex_) = false;
  std::optional<int32_t> device_ CALLOUT_GUARDED_BY(mutex_);
  NewNpy first_ CALLOUT_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<NpyFile>> files_ CALLOUT_GUARDED_BY(mutex_);  // By leaf.
  std::string converted_ CALLOUT_GUARDED_BY(mutex_);
};

Result<std::shared_ptr<Callback>> MakeNpy(const std::string& label, const SinkOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(const double fsync_seconds, FsyncSeconds(options));
  const FileOptions file_options{.append = options.Flag("append"), .fsync_seconds = fsync_seconds};
  auto sink = std::make_shared<NpySink>(label, options.Text("path", ""), file_options);
  CALLOUT_RETURN_IF_ERROR(sink->Open());
  return std::shared_ptr<Callback>(std::move(sink));
}

}  // namespace

const SinkKind& NpyKind() {
  static constexpr SinkOption kOptions[] = {
      {"path", OptionType::kPath, "needed", "the file, created if missing; with `{leaf}` in it one a leaf"},
      {"append", OptionType::kFlag, "false", "go on behind the rows that the file holds"},
      kFsyncOption,
  };
  static constexpr SinkKind kKind = {
      .name = "npy", .options = kOptions, .has_main = true, .is_for_hosts = true, .make = &MakeNpy};
  return kKind;
}

}  // namespace callout::internal
