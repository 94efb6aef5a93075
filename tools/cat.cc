// SPDX-License-Identifier: Apache-2.0
#include "cat.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>
#include <system_error>
#include <vector>

#include "callout/pjrt/written_rows.h"
#include "callout/text.h"
#include "session.h"

namespace callout::tools {
namespace {

using pjrt::WrittenCell;
using pjrt::WrittenRow;

void Put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PutJsonLine(const WrittenRow& row) {
  std::string line;
  for (const WrittenCell& cell : row) {
    line += line.empty() ? "{" : ", ";
    callout::AppendJson(cell.name, line);
    line += ": ";
    pjrt::AppendCellJson(cell, line);
  }
  Put(line.empty() ? "{}\n" : line + "}\n");
}

/// Prints rows with the columns of the first row.
class CsvRows {
 public:
  Status Put(const WrittenRow& row) {
    std::string line;
    if (columns_.empty()) {
      for (const WrittenCell& cell : row) columns_.push_back(cell.name);
      for (const std::string& column : columns_) AddCell(column, line);
      End(line);
    }
    size_t found = 0;
    for (const std::string& column : columns_) {
      const auto it =
          std::find_if(row.begin(), row.end(), [&](const WrittenCell& cell) { return cell.name == column; });
      found += it == row.end() ? 0 : 1;
      const bool is_string =
          it != row.end() && it->kind == WrittenCell::Kind::kJson && it->text.front() == '"';  // "NaN" and the like.
      AddCell(it == row.end() ? "" : is_string ? it->text.substr(1, it->text.size() - 2) : it->text, line);
    }
    if (found < row.size()) {
      return InvalidArgument("callout: a row has columns that the first one has not; --format=jsonl has them all");
    }
    End(line);
    return OkStatus();
  }

 private:
  static void AddCell(const std::string& text, std::string& line) {
    pjrt::AppendCellCsv(text, line);
    line += ',';
  }
  static void End(std::string& line) {
    if (line.empty()) return;
    line.back() = '\n';
    tools::Put(line);
    line.clear();
  }

  std::vector<std::string> columns_;
};

/// Counts rows, and finds the ranges of their values.
class RowSummary {
 public:
  void Add(const WrittenRow& row) {
    ++rows_;
    const bool is_array = !row.empty() && row[0].name == "array";  // A row of a Zarr store, which has several arrays.
    for (const WrittenCell& cell : row) {
      if (is_array && cell.name != "value") continue;
      AddCell(is_array ? row[0].text : cell.name, cell);
    }
  }

  void Put() const {
    std::printf("rows %llu\n", static_cast<unsigned long long>(rows_));
    for (const Column& column : columns_) {
      std::printf("%s: %llu", column.name.c_str(), static_cast<unsigned long long>(column.count));
      if (column.numbers > 0) {
        std::printf(", min %g, mean %g, max %g", column.least, column.sum / static_cast<double>(column.numbers),
                    column.most);
      } else if (column.count > 0) {
        std::printf(", first %s", column.first.c_str());
      }
      std::printf("\n");
    }
  }

 private:
  struct Column {
    std::string name;
    uint64_t count = 0, numbers = 0;
    double least = std::numeric_limits<double>::infinity(), most = -least, sum = 0;
    std::string first = {};
  };

  void AddCell(const std::string& name, const WrittenCell& cell) {
    auto it = std::find_if(columns_.begin(), columns_.end(), [&](const Column& column) { return column.name == name; });
    if (it == columns_.end()) it = columns_.insert(columns_.end(), Column{.name = name});
    if (cell.kind == WrittenCell::Kind::kNothing) return;
    constexpr size_t kShown = 60;
    if (++it->count == 1) it->first = cell.text.size() > kShown ? cell.text.substr(0, kShown) + "..." : cell.text;
    double number = 0;
    const char* const text_end = cell.text.data() + cell.text.size();
    const auto [end, error] = std::from_chars(cell.text.data(), text_end, number);
    if (cell.kind != WrittenCell::Kind::kJson || error != std::errc() || end != text_end) return;
    ++it->numbers;
    it->least = std::min(it->least, number);
    it->most = std::max(it->most, number);
    it->sum += number;
  }

  uint64_t rows_ = 0;
  std::vector<Column> columns_;
};

}  // namespace

int Cat(const CatOptions& options) {
  CsvRows csv;
  RowSummary summary;
  Status put = OkStatus();
  int64_t left = options.limit;
  const auto visit = [&](const WrittenRow& row) {
    if (left <= 0) return false;
    --left;
    if (options.format == "csv") {
      put = csv.Put(row);
    } else if (options.format == "summary") {
      summary.Add(row);
    } else {
      PutJsonLine(row);
    }
    return put.ok() && std::ferror(stdout) == 0 && left > 0;
  };
  const Status status = options.limit > 0 ? pjrt::ForEachWrittenRow(options.path, visit) : OkStatus();
  if (options.format == "summary" && status.ok()) summary.Put();
  const Status& failed = status.ok() ? put : status;
  if (failed.ok()) return kSuccess;
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", failed.c_message());
  return kUnusable;
}

}  // namespace callout::tools
