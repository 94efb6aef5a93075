// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/csv.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/cat.h"
#include "core/frame/buffer.h"
#include "sinks/each_sink_kind.h"
#include "sinks/files/file_sink.h"
#include "sinks/step_counter.h"
#include "sinks/text/text.h"

namespace callout::internal {

void AppendCsvCell(std::string_view text, std::string& out) {
  const auto is_special = [](char c) { return c == ',' || c == '"' || c == '\r' || c == '\n'; };
  if (std::none_of(text.begin(), text.end(), is_special)) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"') out += '"';
      out += c;
    }
  }
  out += '"';
}

std::string CsvLine(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    AppendCsvCell(cell, line);
    line += ',';
  }
  line.back() = '\n';
  return line;
}

std::optional<std::vector<std::string>> ParseCsvLine(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool begins = i == 0 || line[i - 1] == ',';
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"' && quoted) {
      quoted = false;
      if (i + 1 < line.size() && line[i + 1] != ',') return std::nullopt;
    } else if (c == '"' && begins) {
      quoted = true;
    } else if (c == '"') {
      return std::nullopt;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  return cells;
}

namespace {

using Kind = CsvCells::Kind;

constexpr std::pair<std::string_view, Kind> kFields[] = {{"name", Kind::kName},     {"step", Kind::kStep},
                                                         {"device", Kind::kDevice}, {"run", Kind::kRun},
                                                         {"seq", Kind::kSeq},       {"time", Kind::kTime}};

const std::vector<std::string>& OwnColumns() {
  static const auto* const columns = new std::vector<std::string>{"name", "step", "device", "time"};
  return *columns;
}

CsvCells FieldCell(std::string_view column) {
  for (const auto& [name, kind] : kFields) {
    if (name == column) return {kind};
  }
  return {};
}

std::string ColumnOf(const std::string& leaf) {
  if (leaf.empty()) return "value";
  return FieldCell(leaf).kind == Kind::kEmpty ? leaf : "value." + leaf;
}

// Returns ".1.2" for element 5 of [2,3].
std::string IndexOf(const callout_buffer& buffer, int64_t element) {
  std::string index;
  for (uint32_t axis = buffer.rank; axis-- > 0; element /= buffer.dims[axis]) {
    index.insert(0, Cat(".", element % buffer.dims[axis]));
  }
  return index;
}

using Visit = std::function<Status(std::string column, CsvCells cell)>;

// Calls `visit` for each element of each leaf that is not the step.
Status ForEachElement(const Record& record, const Visit& visit) {
  for (size_t i = 0; i < record.buffers.size(); ++i) {
    const callout_buffer& buffer = record.buffers[i];
    const std::string& leaf = record.site->leaf_names[i];
    if (StepLeaf(leaf, buffer)) continue;
    const int64_t count = ElementCount(buffer);
    const std::string column = ColumnOf(leaf);
    if (count > kMaxCsvElements) {
      return InvalidArgument(Cat("'", column, "' is ", ShapeString(buffer), ": a CSV file takes arrays of at most ",
                                 kMaxCsvElements, " elements, a column each"));
    }
    for (int64_t k = 0; k < count; ++k) {
      CALLOUT_RETURN_IF_ERROR(visit(column + IndexOf(buffer, k), {Kind::kElements, i, k}));
    }
  }
  return OkStatus();
}

// Merges adjacent cells that hold adjacent elements of one leaf.
std::vector<CsvCells> Joined(const std::vector<CsvCells>& cells) {
  std::vector<CsvCells> joined;
  for (const CsvCells& cell : cells) {
    const bool is_next = cell.kind == Kind::kElements && !joined.empty() && joined.back().kind == Kind::kElements &&
                         joined.back().leaf == cell.leaf && joined.back().element + joined.back().count == cell.element;
    if (is_next) {
      ++joined.back().count;
    } else {
      joined.push_back(cell);
    }
  }
  return joined;
}

}  // namespace

Status CheckCsvColumns(const std::vector<std::string>& columns) {
  for (auto it = columns.begin(); it != columns.end(); ++it) {
    if (it->empty()) return InvalidArgument("a column has no name");
    if (std::find(columns.begin(), it, *it) != it) return InvalidArgument("two columns are called '" + *it + "'");
  }
  return OkStatus();
}

Result<std::vector<std::string>> CsvColumnsOf(const Record& record) {
  std::vector<std::string> columns = OwnColumns();
  CALLOUT_RETURN_IF_ERROR(ForEachElement(record, [&](std::string column, CsvCells) {
    columns.push_back(std::move(column));
    return OkStatus();
  }));
  CALLOUT_RETURN_IF_ERROR(CheckCsvColumns(columns));
  return columns;
}

Result<std::vector<CsvCells>> CsvCellsOf(const Record& record, const std::vector<std::string>& columns, bool chosen) {
  std::map<std::string_view, size_t> places;
  std::vector<CsvCells> cells(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    places.emplace(columns[i], i);
    cells[i] = FieldCell(columns[i]);
  }
  std::string missing;
  bool found = false;
  CALLOUT_RETURN_IF_ERROR(ForEachElement(record, [&](const std::string& column, CsvCells cell) {
    const auto place = places.find(column);
    if (place != places.end()) {
      cells[place->second] = cell;
      found = true;
    } else if (missing.empty()) {
      missing = column;
    }
    return OkStatus();
  }));
  if (missing.empty() || (chosen && found)) return Joined(cells);
  std::string line = CsvLine(columns);
  line.pop_back();
  return InvalidArgument("'" + missing + "' is none of its columns: " + line);
}

namespace {

// Calls `visit` for each line of the first `size` bytes, without its line feed, until it returns false.
template <typename Visit>
void ForEachLine(int fd, uint64_t size, const Visit& visit) {
  std::string lines;
  std::array<char, 64 << 10> chunk;
  for (uint64_t at = 0; at < size;) {
    const ssize_t n = pread(fd, chunk.data(), std::min<uint64_t>(chunk.size(), size - at), static_cast<off_t>(at));
    if (n <= 0) return;
    at += static_cast<uint64_t>(n);
    lines.append(chunk.data(), static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (!visit(std::string_view(lines).substr(begin, end - begin))) return;
    }
    lines.erase(0, begin);
  }
}

Status ReadHeader(int fd, uint64_t size, const std::vector<std::string>& wanted, std::vector<std::string>& columns) {
  std::optional<std::vector<std::string>> header;
  std::string line;
  ForEachLine(fd, size, [&](std::string_view first) {
    line = first;
    header = ParseCsvLine(first);
    return false;
  });
  if (!header) return InvalidArgument("its first line is no header: " + line);
  CALLOUT_RETURN_IF_ERROR(CheckCsvColumns(*header));
  if (!wanted.empty() && *header != wanted) {
    std::string expected = CsvLine(wanted);
    expected.pop_back();
    return InvalidArgument("its columns are " + line + ", expected " + expected);
  }
  columns = *std::move(header);
  return OkStatus();
}

// Makes records without a step of their own continue after the last step in the file.
void ReadSteps(int fd, uint64_t size, const std::vector<std::string>& columns, StepCounter& steps) {
  const auto name = static_cast<size_t>(std::find(columns.begin(), columns.end(), "name") - columns.begin());
  const auto step = static_cast<size_t>(std::find(columns.begin(), columns.end(), "step") - columns.begin());
  if (name == columns.size() || step == columns.size()) return;
  std::map<std::string, int64_t> last;
  bool is_header = true;
  ForEachLine(fd, size, [&](std::string_view line) {
    const bool skip = std::exchange(is_header, false);
    const auto cells = skip ? std::nullopt : ParseCsvLine(line);
    if (!cells || cells->size() <= std::max(name, step)) return true;
    const std::string& text = (*cells)[step];
    int64_t value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{}) last[(*cells)[name]] = value;
    return true;
  });
  for (const auto& [label, value] : last) steps.Resume(label, value);
}

}  // namespace

Status ReadCsvContents(int fd, uint64_t size, const std::vector<std::string>& wanted, CsvContents& contents) {
  CALLOUT_RETURN_IF_ERROR(ReadHeader(fd, size, wanted, contents.columns));
  ReadSteps(fd, size, contents.columns, contents.steps);
  return OkStatus();
}

namespace {

void AppendInteger(int64_t value, std::string& out) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

/// Writes one line for each record (RFC 4180), with the columns of the file's first line. These are the columns that
/// the user chose, which may omit leaves; or else those of the appended file; or else "name", "step", "device", "time"
/// and the leaves of the first record. docs/sinks.md has the rules.
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
