// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/csv_columns.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "core/frame/buffer.h"
#include "sinks/files/csv_text.h"
#include "sinks/step_counter.h"

namespace callout::internal {
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

// ".1.2" for element 5 of [2,3].
std::string IndexOf(const callout_buffer& buffer, int64_t element) {
  std::string index;
  for (uint32_t axis = buffer.rank; axis-- > 0; element /= buffer.dims[axis]) {
    index.insert(0, "." + std::to_string(element % buffer.dims[axis]));
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
      return InvalidArgument("'" + column + "' is " + ShapeString(buffer) + ": a CSV file takes arrays of at most " +
                             std::to_string(kMaxCsvElements) + " elements, a column each");
    }
    for (int64_t k = 0; k < count; ++k) {
      CALLOUT_RETURN_IF_ERROR(visit(column + IndexOf(buffer, k), {Kind::kElements, i, k}));
    }
  }
  return OkStatus();
}

// Neighbours that are neighbours in their leaf, too, as one.
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

}  // namespace callout::internal
