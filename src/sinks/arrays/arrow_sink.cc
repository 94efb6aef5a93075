// SPDX-License-Identifier: Apache-2.0
//
// The sink that writes Arrow IPC streams. docs/arrays_on_disk.md describes how records become rows.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/cat.h"
#include "core/base/process_state.h"
#include "core/base/thread_annotations.h"
#include "core/encoding/utf8.h"
#include "core/frame/buffer.h"
#include "sinks/arrays/arrow_batch.h"
#include "sinks/arrays/arrow_reader.h"
#include "sinks/arrays/stored_type.h"
#include "sinks/each_sink_kind.h"
#include "sinks/files/file_sink.h"
#include "sinks/files/open_files.h"
#include "sinks/step_counter.h"

namespace callout::internal {
namespace {

constexpr std::array<std::string_view, 5> kArrowFields = {"name", "step", "device", "process", "time"};
enum ArrowField : size_t { kName, kStep, kDevice, kProcess, kTime };  // Indices into kArrowFields.

// The columns of kArrowFields.
std::vector<ArrowColumn> OwnColumns() {
  using Kind = ArrowColumn::Kind;
  return {{.name = "name", .kind = Kind::kText},
          {.name = "step", .dtype = DType::kInt64},
          {.name = "device", .dtype = DType::kInt32},
          {.name = "process", .dtype = DType::kInt32},
          {.name = "time", .kind = Kind::kTime, .dtype = DType::kInt64}};
}

std::string ColumnText(const ArrowColumn& column) {
  using Kind = ArrowColumn::Kind;
  const std::string type = column.kind == Kind::kText   ? "texts"
                           : column.kind == Kind::kTime ? "times"
                                                        : TypeText(column.dtype, column.shape);
  return "'" + column.name + "' of " + type;
}

// A complex element becomes two floats along one more axis.
Result<ArrowColumn> LeafColumn(const std::string& leaf, const callout_buffer& buffer) {
  const bool is_field = std::find(kArrowFields.begin(), kArrowFields.end(), leaf) != kArrowFields.end();
  ArrowColumn column{.name = leaf.empty() ? "value" : is_field ? "value." + leaf : ValidUtf8(leaf)};
  CALLOUT_ASSIGN_OR_RETURN(column.dtype, StoredType(static_cast<DType>(buffer.dtype)));
  column.shape.assign(buffer.dims, buffer.dims + buffer.rank);
  const bool is_complex = column.dtype == DType::kComplex64 || column.dtype == DType::kComplex128;
  if (is_complex) {
    column.shape.push_back(2);
    column.dtype = column.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  }
  CALLOUT_RETURN_IF_ERROR(CheckStoredRank(column.shape.size()));
  column.is_tensor = !column.shape.empty();
  if (column.elements() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("'" + column.name + "' is " + ShapeString(buffer) +
                           ": Arrow takes tensors of at most 2^31-1 numbers");
  }
  return column;
}

Result<std::vector<ArrowColumn>> ColumnsOf(const Record& record) {
  std::vector<ArrowColumn> columns = OwnColumns();
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    if (StepLeaf(record.site->leaf_names[i], record.buffers[i])) continue;
    CALLOUT_ASSIGN_OR_RETURN(ArrowColumn column, LeafColumn(record.site->leaf_names[i], record.buffers[i]));
    const auto is_same = [&](const ArrowColumn& other) { return other.name == column.name; };
    if (std::any_of(columns.begin(), columns.end(), is_same)) {
      return InvalidArgument("two columns are called '" + column.name + "'");
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

// Maps the columns to the leaves of a record. The columns of the record's own fields, and columns without a leaf, have
// kNone.
struct ArrowRow {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  std::string name;
  std::vector<size_t> leaves = {};  // One for each column after the fields.
  std::vector<DType> stored = {};   // One for each column after the fields.
  uint64_t number = 0;              // Identifies this ArrowRow.
};

// Consecutive rows that share a name and a device. Both are written to their columns when the run ends.
struct ArrowRun {
  uint64_t row_number = 0;
  std::string name;
  int32_t device = 0;
  size_t begin = 0;  // The first row of the run.
};

Result<ArrowRow> ArrowRowOf(const Record& record, const std::vector<ArrowColumn>& columns) {
  ArrowRow row{.name = ValidUtf8(record.site->label)};
  row.leaves.assign(columns.size() - kArrowFields.size(), ArrowRow::kNone);
  row.stored.assign(row.leaves.size(), DType::kInvalid);
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    if (StepLeaf(record.site->leaf_names[i], record.buffers[i])) continue;
    CALLOUT_ASSIGN_OR_RETURN(const ArrowColumn column, LeafColumn(record.site->leaf_names[i], record.buffers[i]));
    const auto it = std::find_if(columns.begin() + kArrowFields.size(), columns.end(),
                                 [&](const ArrowColumn& other) { return other.name == column.name; });
    if (it == columns.end()) {
      return InvalidArgument(
          Cat("'", column.name, "' is none of its columns: ", Join(columns, ", ", &ArrowColumn::name)));
    }
    if (*it != column) {
      return InvalidArgument("'" + column.name + "' is " + TypeText(column.dtype, column.shape) + ", expected " +
                             TypeText(it->dtype, it->shape) + " as in its column");
    }
    const auto place = static_cast<size_t>(it - columns.begin()) - kArrowFields.size();
    row.leaves[place] = i;
    row.stored[place] = StoredType(static_cast<DType>(record.buffers[i].dtype)).value();
  }
  return row;
}

/// Writes one row for each record, in batches. The columns are those of the appended file, or else of the first record.
class ArrowSink final : public FileSink {
 public:
  ArrowSink(std::string label, std::unique_ptr<FileOutput> file, std::vector<ArrowColumn> columns, StepCounter steps)
      : FileSink(std::move(label), std::move(file)), forks_(open_files_.forks()), steps_(std::move(steps)) {
    MutexLock lock(mutex_);
    if (!columns.empty()) TakeColumns(std::move(columns));
  }
  ~ArrowSink() override {
    const Status status = WriteRows();
    if (!status.ok()) Log(LogLevel::kError, status.message());
  }

  Status Deliver(const Record& record) override {
    if (IsInChild()) return FailedPrecondition("cannot write to '" + file().path() + "' in a forked child");
    MutexLock lock(mutex_);
    const int64_t step = steps_.Next(record);
    if (Status status = AddRow(record, step); !status.ok()) {
      if (status.code() != StatusCode::kInvalidArgument) return status;
      return InvalidArgument("cannot write '" + record.site->label + "' to '" + file().path() +
                             "': " + std::string(status.message()));
    }
    return batch_->EndRow(run_.name.size()) ? WriteBatch() : OkStatus();
  }
  Status Flush() override {
    Status status = WriteRows();
    Status flushed = file().Flush();
    return status.ok() ? std::move(flushed) : std::move(status);
  }
  Status Close() override {
    Status status = WriteRows();
    Status closed = file().Close();
    return status.ok() ? std::move(closed) : std::move(status);
  }

 private:
  Status Format(const Record& /*record*/, std::string& /*bytes*/) override { return OkStatus(); }

  void TakeColumns(std::vector<ArrowColumn> columns) CALLOUT_REQUIRES(mutex_) {
    columns_ = std::move(columns);
    batch_ = std::make_unique<ArrowBatch>(columns_);
    file().SetHeader(SchemaMessage(columns_));
  }

  Status AddRow(const Record& record, int64_t step) CALLOUT_REQUIRES(mutex_) {
    if (batch_ == nullptr) {
      CALLOUT_ASSIGN_OR_RETURN(std::vector<ArrowColumn> columns, ColumnsOf(record));
      TakeColumns(std::move(columns));
    }
    const ArrowRow* row = rows_.FindKnown(record);
    if (row == nullptr) {
      CALLOUT_ASSIGN_OR_RETURN(row, FindRow(record));
    }
    if (row->number != run_.row_number || record.device_ordinal != run_.device) {
      EndRun();
      run_ = {row->number, row->name, record.device_ordinal, batch_->rows()};
    }
    constexpr double kMicroseconds = 1e6;
    batch_->column(kStep).AddNumber(step);
    batch_->column(kTime).AddNumber(static_cast<int64_t>(clock().SecondsAt(record.ticks) * kMicroseconds));
    for (size_t i = 0; i < row->leaves.size(); ++i) {
      ArrowColumnRows& column = batch_->column(kArrowFields.size() + i);
      if (row->leaves[i] == ArrowRow::kNone) {
        column.AddNull(batch_->rows());
        continue;
      }
      const callout_buffer& buffer = record.buffers[row->leaves[i]];
      const bool is_stored = row->stored[i] == static_cast<DType>(buffer.dtype);
      column.AddBytes(is_stored ? buffer.data : StoredElements(buffer, row->stored[i], column.converted()).data());
    }
    return OkStatus();
  }

  Result<const ArrowRow*> FindRow(const Record& record) CALLOUT_REQUIRES(mutex_) {
    const std::vector<ArrowColumn>* const columns = &columns_;
    const uint64_t number = ++made_rows_;
    return rows_.Find(record, [columns, number](const Record& like) -> Result<ArrowRow> {
      CALLOUT_ASSIGN_OR_RETURN(ArrowRow row, ArrowRowOf(like, *columns));
      row.number = number;
      return row;
    });
  }

  void EndRun() CALLOUT_REQUIRES(mutex_) {
    const size_t rows = batch_->rows() - run_.begin;
    batch_->column(kName).AddTexts(run_.name, rows);
    batch_->column(kDevice).AddNumbers(run_.device, rows);
    batch_->column(kProcess).AddNumbers(static_cast<int32_t>(ProcessIndex()), rows);
    run_.begin = batch_->rows();
  }

  // A forked child must not take `mutex_`: another thread may have held it during the fork.
  bool IsInChild() const { return forks_ != open_files_.forks(); }

  Status WriteRows() {
    if (IsInChild()) return OkStatus();
    MutexLock lock(mutex_);
    return batch_ != nullptr && batch_->rows() > 0 ? WriteBatch() : OkStatus();
  }

  Status WriteBatch() CALLOUT_REQUIRES(mutex_) {
    EndRun();
    Status status = file().AddParts(batch_->Message(), batch_->rows());
    batch_->Clear();  // Cleared even if the file is closed and took nothing.
    run_.begin = 0;
    return status;
  }

  const OpenFiles& open_files_ = OpenFiles::Get();
  const int forks_;  // See OpenFiles.

  Mutex mutex_;  // Close and Deliver run on different threads.
  std::vector<ArrowColumn> columns_ CALLOUT_GUARDED_BY(mutex_);
  std::unique_ptr<ArrowBatch> batch_ CALLOUT_GUARDED_BY(mutex_);
  StepCounter steps_ CALLOUT_GUARDED_BY(mutex_);
  RecordCache<ArrowRow> rows_ CALLOUT_GUARDED_BY(mutex_);
  uint64_t made_rows_ CALLOUT_GUARDED_BY(mutex_) = 0;
  ArrowRun run_ CALLOUT_GUARDED_BY(mutex_);
};

struct ArrowContents {
  std::vector<ArrowColumn> columns;
  StepCounter steps;
};

// Returns where the last whole batch ends in a stream that a sink wrote.
Result<uint64_t> ReadContents(int fd, uint64_t size, ArrowContents& contents) {
  CALLOUT_ASSIGN_OR_RETURN(ArrowReader reader, ArrowReader::Open(fd, size));
  const std::vector<ArrowColumn> own = OwnColumns();
  for (size_t i = 0; i < own.size() && reader.end() > 0; ++i) {
    const bool is_there = i < reader.columns().size();
    if (!is_there || reader.columns()[i] != own[i]) {
      return InvalidArgument(Cat("its columns are not those that a sink writes: at place ", i, " is ",
                                 is_there ? ColumnText(reader.columns()[i]) : "none", ", expected ",
                                 ColumnText(own[i])));
    }
  }
  contents.columns = reader.columns();
  std::map<std::string, int64_t, std::less<>> last;
  while (true) {
    CALLOUT_ASSIGN_OR_RETURN(const bool is_there, reader.Next());
    if (!is_there) break;
    CALLOUT_ASSIGN_OR_RETURN(const ArrowReader::Values names, reader.Read(0));
    CALLOUT_ASSIGN_OR_RETURN(const ArrowReader::Values steps, reader.Read(1));
    for (size_t row = 0; row < reader.rows(); ++row) {
      int64_t step = 0;
      std::copy_n(steps.data.data() + row * sizeof(step), sizeof(step), reinterpret_cast<char*>(&step));
      const auto it = last.find(names.TextAt(row));
      if (it != last.end()) {
        it->second = step;
      } else {
        last.emplace(names.TextAt(row), step);
      }
    }
  }
  for (const auto& [name, step] : last) contents.steps.Resume(name, step);
  return reader.end();
}

Result<std::shared_ptr<Callback>> MakeArrow(const std::string& label, const SinkOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(const FileOptions file_options, FileOptionsOf(options));
  ArrowContents contents;
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<FileOutput> file,
                           FileOutput::Open(options.Text("path", ""), file_options, "Arrow",
                                            [&](int fd, uint64_t size) { return ReadContents(fd, size, contents); }));
  return std::shared_ptr<Callback>(
      std::make_shared<ArrowSink>(label, std::move(file), std::move(contents.columns), std::move(contents.steps)));
}

}  // namespace

const SinkKind& ArrowKind() {
  static constexpr SinkOption kOptions[] = {kPathOption, kAppendOption, kFsyncOption, kRotateOption, kKeepOption};
  static constexpr SinkKind kKind = {
      .name = "arrow", .options = kOptions, .has_main = true, .is_for_hosts = true, .make = &MakeArrow};
  return kKind;
}

}  // namespace callout::internal
