// SPDX-License-Identifier: Apache-2.0
//
// The sink that writes Zarr stores of version 3: one array for each leaf, one row for each record. See
// docs/arrays_on_disk.md.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/cat.h"
#include "core/base/log.h"
#include "core/base/thread_annotations.h"
#include "core/base/ticks.h"
#include "core/frame/buffer.h"
#include "sinks/arrays/stored_type.h"
#include "sinks/arrays/zarr_array.h"
#include "sinks/each_sink_kind.h"
#include "sinks/files/file_sink.h"
#include "sinks/files/open_files.h"

namespace callout::internal {
namespace {

constexpr uint64_t kChunkBytes = 4 << 20;  // Bytes of a chunk. A chunk of larger rows has one row.

struct ZarrOptions {
  bool append = false;
  bool shared = false;
  double fsync_seconds = FileOptions::kNever;
  int64_t rows = 0;
  int64_t chunk_rows = 0;  // 0 makes chunks of kChunkBytes.
  std::vector<int32_t> devices = {};
};

// Splits an array's name into the names of its folders. The name comes from a program and may hold anything.
Result<std::vector<std::string>> ZarrNodes(const std::string& name) {
  std::vector<std::string> nodes;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    nodes.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& node : nodes) {
    const bool is_dots = node.find_first_not_of('.') == std::string::npos;  // True for an empty name, too.
    if (is_dots || node.starts_with("__") || node == "zarr.json" || node.find('\0') != std::string::npos) {
      return InvalidArgument("it is no name of a Zarr array");
    }
  }
  return nodes;
}

// The array that a leaf is written to.
struct ZarrLeaf {
  ZarrArrayFile* array;
  DType stored;
};

/// Writes one group for each tap's name, with one array for each leaf.
class ZarrSink final : public WritingSink {
 public:
  ZarrSink(std::string label, std::string path, ZarrOptions options)
      : WritingSink(std::move(label)),
        path_(std::move(path)),
        options_(std::move(options)),
        forks_(OpenFiles::Get().forks()),
        synced_ns_(SteadyNanoseconds()) {}
  ~ZarrSink() override {
    const Status status = Close();
    if (!status.ok()) Log(LogLevel::kError, status.message());
  }

  /// Creates or empties the group, and takes its lock.
  Status Open() {
    MutexLock lock(mutex_);
    const std::string cannot = "cannot open '" + path_ + "' for Zarr";
    Status status = Prepare(cannot);
    if (status.ok() || status.message().starts_with(cannot)) return status;
    return status.WithMessage(cannot + ": " + std::string(status.message()));
  }

  Status Deliver(const Record& record) override {
    if (IsInChild()) return FailedPrecondition("cannot write to '" + path_ + "' in a forked child");
    MutexLock lock(mutex_);
    if (lock_ < 0) return FailedPrecondition("cannot write to '" + path_ + "': it is closed");
    Status status = AddRecord(record);
    if (status.ok()) return status;
    return status.WithMessage("cannot write '" + record.site->label + "' to '" + path_ +
                              "': " + std::string(status.message()));
  }

  Status Flush() override { return WriteAll(/*at_end=*/false); }

  Status Close() override {
    if (IsInChild()) return OkStatus();
    Status status = WriteAll(/*at_end=*/true);
    MutexLock lock(mutex_);
    arrays_.clear();
    leaves_ = {};
    CloseLocked(std::exchange(lock_, -1));
    return status;
  }

 private:
  using Leaves = std::vector<ZarrLeaf>;

  // Must be checked before taking `mutex_`, which another thread may have held during the fork.
  bool IsInChild() const { return forks_ != OpenFiles::Get().forks(); }

  // Creates the group if needed, and takes its lock. A lock on the folder makes processes that start together do this
  // one after the other.
  Status MakeAndLock(const std::string& cannot) CALLOUT_REQUIRES(mutex_) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) return {StatusCode::kNotFound, error.message()};
    const FolderLock others(path_);
    const std::string group = path_ + "/zarr.json";
    if (fs::exists(group, error)) {
      CALLOUT_ASSIGN_OR_RETURN(const std::string text, ReadZarrText(group));
      if (!IsZarrGroup(text)) return InvalidArgument("its zarr.json is none of a group");
    } else {
      if (!fs::is_empty(path_, error)) return InvalidArgument("it is a folder with other things in it");
      CALLOUT_RETURN_IF_ERROR(ReplaceFile(group, ZarrGroupText(), /*sync=*/false));
    }
    CALLOUT_ASSIGN_OR_RETURN(const LockedFile file, OpenLocked(group, cannot, /*must_be_new=*/false, options_.shared));
    lock_ = file.fd;
    return OkStatus();
  }

  Status Prepare(const std::string& cannot) CALLOUT_REQUIRES(mutex_) {
    namespace fs = std::filesystem;
    std::error_code error;
    CALLOUT_RETURN_IF_ERROR(MakeAndLock(cannot));
    if (options_.append) return OkStatus();
    for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
      std::error_code ignored;
      if (!entry.is_symlink(ignored) && fs::exists(entry.path() / "zarr.json", ignored))
        fs::remove_all(entry.path(), error);
      if (error) return InternalError("cannot remove '" + entry.path().string() + "': " + error.message());
    }
    return error ? InternalError(error.message()) : OkStatus();
  }

  Status AddRecord(const Record& record) CALLOUT_REQUIRES(mutex_) {
    CALLOUT_ASSIGN_OR_RETURN(const std::optional<int64_t> device, DeviceAxis(record));
    CALLOUT_ASSIGN_OR_RETURN(const Leaves* const leaves, FindLeaves(record, device.has_value()));
    size_t first_offset = 0;
    Status first = OkStatus();
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      const callout_buffer& buffer = record.buffers[i];
      writer_.clear();
      if (device) writer_.push_back(*device);
      for (uint32_t axis = 0; axis < buffer.rank; ++axis) {
        const int64_t offset = record.offsets.empty() ? 0 : record.offsets[first_offset + axis];
        const int64_t extent = std::max<int64_t>(buffer.dims[axis], 1);
        if (offset % extent != 0 || offset < 0) {
          return InvalidArgument(Cat("a shard that begins at ", offset, " is no multiple of its extent ", extent));
        }
        writer_.push_back(offset / extent);
      }
      first_offset += buffer.rank;
      Status status = (*leaves)[i].array->Add(writer_, StoredElements(buffer, (*leaves)[i].stored, converted_));
      if (first.ok()) first = std::move(status);  // An error does not keep the other leaves from getting their rows.
    }
    return first;
  }

  // Returns the index along the axis of devices, if there is one. Rows of several devices need such an axis, unless
  // each is a shard with a position in the whole value.
  Result<std::optional<int64_t>> DeviceAxis(const Record& record) CALLOUT_REQUIRES(mutex_) {
    const int32_t device = record.device_ordinal;
    if (!options_.devices.empty()) {
      const auto it = std::find(options_.devices.begin(), options_.devices.end(), device);
      if (it == options_.devices.end()) {
        return InvalidArgument(Cat("device ", device, " is none of `devices`"));
      }
      return std::optional<int64_t>(it - options_.devices.begin());
    }
    if (!record.offsets.empty()) return std::optional<int64_t>();
    if (device_ && *device_ != device) {
      return InvalidArgument(
          Cat("rows of device ", *device_, " and of device ", device, " would mix: name the `devices`"));
    }
    device_ = device;
    return std::optional<int64_t>();
  }

  Result<const Leaves*> FindLeaves(const Record& record, bool has_device) CALLOUT_REQUIRES(mutex_) {
    ZarrSink& self = *this;
    return leaves_.Find(record, [&self, has_device](const Record& like) CALLOUT_ATTRIBUTE(no_thread_safety_analysis) {
      return self.OpenLeaves(like, has_device);
    });
  }

  Result<Leaves> OpenLeaves(const Record& record, bool has_device) CALLOUT_REQUIRES(mutex_) {
    Leaves leaves;
    for (size_t i = 0; i < record.buffers.size(); ++i) {
      const std::string& leaf = record.site->leaf_names[i];
      const std::string name = leaf.empty() ? record.site->label : record.site->label + "/" + leaf;
      CALLOUT_ASSIGN_OR_RETURN(const ZarrLeaf made, OpenLeaf(name, record.buffers[i], has_device));
      leaves.push_back(made);
    }
    return leaves;
  }

  Result<ZarrLeaf> OpenLeaf(const std::string& name, const callout_buffer& buffer, bool has_device)
      CALLOUT_REQUIRES(mutex_) {
    CALLOUT_ASSIGN_OR_RETURN(const DType stored, StoredType(static_cast<DType>(buffer.dtype)));
    ZarrArray wanted{.dtype = stored, .rows = options_.rows, .chunk_rows = options_.chunk_rows};
    if (has_device) {
      wanted.shape.push_back(static_cast<int64_t>(options_.devices.size()));
      wanted.chunk.push_back(1);
    }
    for (uint32_t axis = 0; axis < buffer.rank; ++axis) {
      wanted.shape.push_back(buffer.dims[axis]);
      wanted.chunk.push_back(std::max<int64_t>(buffer.dims[axis], 1));
    }
    CALLOUT_RETURN_IF_ERROR(CheckStoredRank(1 + wanted.chunk.size()));
    std::unique_ptr<ZarrArrayFile>& array = arrays_[name];
    Status status = OkStatus();
    if (array != nullptr) {
      status = array->Check(stored, wanted.chunk);
    } else {
      if (wanted.chunk_rows == 0) {
        const uint64_t row = std::max<uint64_t>(StoredBytes(buffer, stored), 1);
        wanted.chunk_rows = static_cast<int64_t>(std::max<uint64_t>(kChunkBytes / row, 1));
      }
      Result<std::unique_ptr<ZarrArrayFile>> made = OpenArray(name, std::move(wanted));
      status = made.status();
      if (made.ok()) array = std::move(made).value();
    }
    if (status.ok()) return ZarrLeaf{array.get(), stored};
    if (array == nullptr) arrays_.erase(name);
    return status.WithMessage("'" + name + "': " + std::string(status.message()));
  }

  Result<std::unique_ptr<ZarrArrayFile>> OpenArray(const std::string& name, ZarrArray wanted) CALLOUT_REQUIRES(mutex_) {
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<std::string> nodes, ZarrNodes(name));
    std::string folder = path_;
    for (size_t i = 0; i + 1 < nodes.size(); ++i) {
      folder += "/" + nodes[i];
      std::error_code error;
      std::filesystem::create_directories(folder, error);
      if (error) return InternalError("'" + folder + "': " + error.message());
      const Result<std::string> text = ReadZarrText(folder + "/zarr.json");
      if (text.ok() && !IsZarrGroup(*text)) return InvalidArgument("'" + folder + "' is no group");
      if (!text.ok()) CALLOUT_RETURN_IF_ERROR(ReplaceFile(folder + "/zarr.json", ZarrGroupText(), /*sync=*/false));
    }
    return ZarrArrayFile::Open(folder + "/" + nodes.back(), std::move(wanted),
                               {.shared = options_.shared, .syncs = options_.fsync_seconds >= 0});
  }

  Status WriteAll(bool at_end) {
    if (IsInChild()) return OkStatus();
    MutexLock lock(mutex_);
    if (lock_ < 0) return OkStatus();
    const int64_t now = SteadyNanoseconds();
    const double since = static_cast<double>(now - synced_ns_) * 1e-9;
    const bool sync = options_.fsync_seconds >= 0 && (at_end || since >= options_.fsync_seconds);
    if (sync) synced_ns_ = now;
    Status status = OkStatus();
    for (const auto& [name, array] : arrays_) {
      Status written = array->Write(sync);
      if (status.ok() && !written.ok()) {
        status = written.WithMessage("cannot write to '" + path_ + "': " + std::string(written.message()));
      }
    }
    return status;
  }

  const std::string path_;
  const ZarrOptions options_;
  const int forks_;

  Mutex mutex_;                               // Close and Deliver run on different threads.
  int lock_ CALLOUT_GUARDED_BY(mutex_) = -1;  // The lock on the group's zarr.json.
  int64_t synced_ns_ CALLOUT_GUARDED_BY(mutex_);
  std::optional<int32_t> device_ CALLOUT_GUARDED_BY(mutex_);
  std::map<std::string, std::unique_ptr<ZarrArrayFile>> arrays_ CALLOUT_GUARDED_BY(mutex_);  // By name.
  RecordCache<Leaves> leaves_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<int64_t> writer_ CALLOUT_GUARDED_BY(mutex_);
  std::string converted_ CALLOUT_GUARDED_BY(mutex_);
};

Result<std::vector<int32_t>> DevicesOf(const SinkOptions& options) {
  std::vector<int32_t> devices;
  for (const double number : options.Numbers("devices")) {
    const bool is_id = number >= 0 && number <= std::numeric_limits<int32_t>::max() && number == std::floor(number);
    const int32_t device = is_id ? static_cast<int32_t>(number) : -1;
    if (!is_id || std::find(devices.begin(), devices.end(), device) != devices.end()) {
      return InvalidArgument("callout: the option 'devices' of a sink has the id of each device once");
    }
    devices.push_back(device);
  }
  return devices;
}

Result<std::shared_ptr<Callback>> MakeZarr(const std::string& label, const SinkOptions& options) {
  ZarrOptions zarr{.append = options.Flag("append"),
                   .shared = options.Flag("shared"),
                   .rows = options.Integer("rows", 0),
                   .chunk_rows = options.Integer("chunk_rows", 0)};
  CALLOUT_ASSIGN_OR_RETURN(zarr.fsync_seconds, FsyncSeconds(options));
  CALLOUT_ASSIGN_OR_RETURN(zarr.devices, DevicesOf(options));
  if (zarr.shared && !zarr.append) {
    return InvalidArgument("callout: the option 'shared' of a sink needs 'append': none may empty what others write");
  }
  auto sink = std::make_shared<ZarrSink>(label, options.Text("path", ""), std::move(zarr));
  CALLOUT_RETURN_IF_ERROR(sink->Open());
  return std::shared_ptr<Callback>(std::move(sink));
}

}  // namespace

const SinkKind& ZarrKind() {
  constexpr int64_t kMostRows = int64_t{1} << 48U;
  static constexpr SinkOption kOptions[] = {
      {"path", OptionType::kPath, "needed", "the folder of the store, created if missing"},
      {"append", OptionType::kFlag, "false", "keep the arrays that are there, and go on behind their rows"},
      {"rows", OptionType::kInteger, "as they come", "so many from the beginning on; those that are not written are 0",
       1, kMostRows},
      {"chunk_rows", OptionType::kInteger, "4 MiB", "rows of a chunk", 1, kMostRows},
      {"devices", OptionType::kNumbers, "one device",
       "what records have as their `device`, in the order of an axis behind the rows; given once for each"},
      {"shared", OptionType::kFlag, "false", "other processes write other devices or shards; needs `append`"},
      kFsyncOption,
  };
  static constexpr SinkKind kKind = {
      .name = "zarr", .options = kOptions, .has_main = true, .is_for_hosts = true, .make = &MakeZarr};
  return kKind;
}

}  // namespace callout::internal
