// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "sinks/each_sink_kind.h"
#include "sinks/files/csv.h"
#include "sinks/files/file_sink.h"
#include "sinks/files/record_cache.h"
#include "sinks/text/text.h"

namespace callout::internal {
namespace {

void AppendInteger(int64_t value, std::string& out) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

/// A line a record, with the columns of the file's first line (RFC 4180): those that were chosen, of which leaves may
/// be some; else those of a file that is appended to, else "name", "step", "device", "time" and the leaves of the first
/// record. docs/sinks.md has the rules.
class CsvSink final : public FileSink {
 public:
  CsvSink(std::string label, std::unique_ptr<FileOutput> file, CsvContents contents, bool chosen)
      : FileSink(std::move(label), std::move(file)),
        columns_(std::move(contents.columns)),
        chosen_(chosen),
        steps_(std::move(contents.steps)) {}

  Status Deliver(const Record& record) override {
    step_ = steps_.Next(record);
    Status status = columns_.empty() ? TakeColumns(record) : OkStatus();
    if (status.ok()) status = FileSink::Deliver(record);
    if (status.code() != StatusCode::kInvalidArgument) return status;
    return InvalidArgument("cannot write '" + record.site->label + "' to '" + file().path() +
                           "': " + std::string(status.message()));
  }

 private:
  Status TakeColumns(const Record& record) {
    CALLOUT_ASSIGN_OR_RETURN(columns_, CsvColumnsOf(record));
    file().SetHeader(CsvLine(columns_));
    return OkStatus();
  }

  Status Format(const Record& record, std::string& line) override {
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<CsvCells>* const cells, cells_.Find(record, [this](const Record& like) {
      return CsvCellsOf(like, columns_, chosen_);
    }));
    writers_.clear();
    for (const callout_buffer& buffer : record.buffers) {
      CALLOUT_ASSIGN_OR_RETURN(ElementWriter writer, ElementWriter::Of(buffer, TextStyle::kCsv));
      writers_.push_back(std::move(writer));
    }
    for (const CsvCells& cell : *cells) {
      AppendCells(record, cell, line);
      line += ',';
    }
    line.back() = '\n';
    return OkStatus();
  }

  void AppendCells(const Record& record, const CsvCells& cell, std::string& line) {
    switch (cell.kind) {
      case CsvCells::Kind::kName:
        return AppendCsvCell(record.site->label, line);
      case CsvCells::Kind::kStep:
        return AppendInteger(step_, line);
      case CsvCells::Kind::kDevice:
        return AppendInteger(record.device_ordinal, line);
      case CsvCells::Kind::kRun:
        return AppendInteger(record.run_id, line);
      case CsvCells::Kind::kSeq:
        return AppendInteger(static_cast<int64_t>(record.sequence), line);
      case CsvCells::Kind::kTime:
        return clock().Append(record.ticks, line);
      case CsvCells::Kind::kElements:
        return writers_[cell.leaf].Append(cell.element, cell.count, ',', line);
      case CsvCells::Kind::kEmpty:
        return;
    }
  }

  std::vector<std::string> columns_;
  const bool chosen_;
  StepCounter steps_;
  int64_t step_ = 0;
  RecordCache<std::vector<CsvCells>> cells_;
  std::vector<ElementWriter> writers_;
};

Result<std::shared_ptr<Callback>> MakeCsv(const std::string& label, const SinkOptions& options) {
  const std::string path = options.Text("path", "");
  std::vector<std::string> columns = options.Texts("columns");
  if (Status status = CheckCsvColumns(columns); !status.ok()) {
    return InvalidArgument("cannot open '" + path + "' for CSV: " + std::string(status.message()));
  }
  CALLOUT_ASSIGN_OR_RETURN(const FileOptions file_options, FileOptionsOf(options));
  CsvContents contents;
  const auto read = [&](int fd, uint64_t size) -> Result<uint64_t> {
    CALLOUT_ASSIGN_OR_RETURN(const uint64_t end, EndOfLines(fd, size));
    if (end == 0) return end;
    CALLOUT_RETURN_IF_ERROR(ReadCsvContents(fd, end, columns, contents));
    return end;
  };
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<FileOutput> file, FileOutput::Open(path, file_options, "CSV", read));
  const bool chosen = !columns.empty();
  if (contents.columns.empty()) contents.columns = std::move(columns);
  if (!contents.columns.empty()) {
    file->SetHeader(CsvLine(contents.columns));
    CALLOUT_RETURN_IF_ERROR(file->Flush());
  }
  return std::shared_ptr<Callback>(std::make_shared<CsvSink>(label, std::move(file), std::move(contents), chosen));
}

}  // namespace

const SinkKind& CsvKind() {
  static constexpr SinkOption kOptions[] = {
      kPathOption,
      kAppendOption,
      {"columns", OptionType::kTexts, "see [CSV](#csv)", "one of the columns; given once for each, in their order"},
      kFsyncOption,
      kRotateOption,
      kKeepOption,
  };
  static constexpr SinkKind kKind = {
      .name = "csv", .options = kOptions, .has_main = true, .is_for_hosts = true, .make = &MakeCsv};
  return kKind;
}

}  // namespace callout::internal
