// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/written_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "callout/text.h"
#include "core/base/cat.h"
#include "core/encoding/json.h"
#include "sinks/files/csv.h"
#include "sinks/files/tf_record.h"
#include "sinks/reading/written_arrays.h"

namespace callout::pjrt {
namespace {

using internal::Json;
using internal::ParseJson;

constexpr uint64_t kMaxLine = 1 << 30;

// Calls `visit` for each whole line, without its line feed, until it returns false.
Status ForEachLineOf(const OpenedFile& file, const std::function<Result<bool>(std::string_view line)>& visit) {
  std::string lines, chunk;
  for (uint64_t at = 0; at < file.size;) {
    const uint64_t some = std::min<uint64_t>(file.size - at, 1 << 20);
    CALLOUT_RETURN_IF_ERROR(ReadFileAt(file.fd, at, some, chunk));
    at += some;
    size_t begin = 0, from = lines.size();
    lines += chunk;
    for (size_t end; (end = lines.find('\n', from)) != std::string::npos; begin = from = end + 1) {
      CALLOUT_ASSIGN_OR_RETURN(const bool more, visit(std::string_view(lines).substr(begin, end - begin)));
      if (!more) return OkStatus();
    }
    lines.erase(0, begin);
    if (lines.size() > kMaxLine) return InvalidArgument("a line of it has more than 1 GiB");
  }
  return OkStatus();
}

void AppendJsonValue(const Json& json, std::string& out) {
  switch (json.kind) {
    case Json::Kind::kNull:
      out += "null";
      break;
    case Json::Kind::kBool:
      out += json.boolean ? "true" : "false";
      break;
    case Json::Kind::kNumber:
      out += json.text;
      break;
    case Json::Kind::kString:
      callout::AppendJson(json.text, out);
      break;
    case Json::Kind::kArray:
      for (const Json& item : json.items) {
        out += &item == json.items.data() ? '[' : ',';
        AppendJsonValue(item, out);
      }
      out += json.items.empty() ? "[]" : "]";
      break;
    case Json::Kind::kObject:
      out += '{';
      for (const auto& [name, value] : json.members) {
        if (out.back() != '{') out += ',';
        callout::AppendJson(name, out);
        out += ':';
        AppendJsonValue(value, out);
      }
      out += '}';
      break;
  }
}

WrittenCell CellOf(std::string name, const Json& json) {
  if (json.kind == Json::Kind::kNull) return {std::move(name), WrittenCell::Kind::kNothing, ""};
  if (json.kind == Json::Kind::kString) return {std::move(name), WrittenCell::Kind::kText, json.text};
  WrittenCell cell{std::move(name), WrittenCell::Kind::kJson, ""};
  AppendJsonValue(json, cell.text);
  return cell;
}

// Visits the record's own members first, in the order in which the sink writes them.
Status ForEachJsonLine(const OpenedFile& file, const VisitRow& visit) {
  size_t number = 0;
  return ForEachLineOf(file, [&](std::string_view line) -> Result<bool> {
    ++number;
    const auto json = ParseJson(line);
    if (!json || json->kind != Json::Kind::kObject) {
      return InvalidArgument(internal::Cat("line ", number, " is no JSON object"));
    }
    WrittenRow row;
    constexpr std::string_view kOwn[] = {"name", "step", "device", "run", "seq", "time"};
    for (const std::string_view own : kOwn) {
      if (const Json* const value = json->Find(std::string(own))) row.push_back(CellOf(std::string(own), *value));
    }
    for (const auto& [name, value] : json->members) {
      if (std::find(std::begin(kOwn), std::end(kOwn), name) == std::end(kOwn)) row.push_back(CellOf(name, value));
    }
    return visit(row);
  });
}

WrittenCell CsvCellOf(std::string name, const std::string& text) {
  if (text.empty()) return {std::move(name), WrittenCell::Kind::kNothing, ""};
  const auto json = ParseJson(text);
  const bool is_number = json && json->kind == Json::Kind::kNumber;
  if (text == "True" || text == "False") {
    return {std::move(name), WrittenCell::Kind::kJson, text == "True" ? "true" : "false"};
  }
  return {std::move(name), is_number ? WrittenCell::Kind::kJson : WrittenCell::Kind::kText, text};
}

Status ForEachCsvLine(const OpenedFile& file, const VisitRow& visit) {
  std::vector<std::string> columns;
  size_t number = 0;
  return ForEachLineOf(file, [&](std::string_view line) -> Result<bool> {
    ++number;
    auto cells = internal::ParseCsvLine(line);
    if (!cells || (number > 1 && cells->size() != columns.size()) || line.find('\0') != std::string_view::npos) {
      return InvalidArgument(internal::Cat("line ", number, " is none of the CSV that a sink writes"));
    }
    if (number == 1) {
      columns = *std::move(cells);
      return true;
    }
    WrittenRow row;
    for (size_t i = 0; i < columns.size(); ++i) row.push_back(CsvCellOf(columns[i], (*cells)[i]));
    return visit(row);
  });
}

Status ForEachRowOfFile(const OpenedFile& file, const VisitRow& visit) {
  if (file.size == 0) return OkStatus();
  std::string head;
  CALLOUT_RETURN_IF_ERROR(ReadFileAt(file.fd, 0, std::min<uint64_t>(file.size, 8), head));
  if (head.starts_with("\xFF\xFF\xFF\xFF")) return ForEachArrowRow(file, visit);
  if (head.starts_with("\x93NUMPY")) return ForEachNpyRow(file, visit);
  if (head.starts_with("{")) return ForEachJsonLine(file, visit);
  uint64_t offset = 0;
  if (internal::ReadTfRecord(file.fd, offset, file.size)) return ForEachEvent(file, visit);
  return ForEachCsvLine(file, visit);
}

Status ForEachRowAt(const std::string& path, const VisitRow& visit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {errno == EACCES ? StatusCode::kPermissionDenied : StatusCode::kNotFound, std::strerror(errno)};
  struct stat file;
  Status status = fstat(fd, &file) != 0    ? InternalError(std::strerror(errno))
                  : !S_ISREG(file.st_mode) ? InvalidArgument("it is no regular file")
                                           : ForEachRowOfFile({fd, static_cast<uint64_t>(file.st_size)}, visit);
  close(fd);
  return status;
}

// Visits a folder of TensorBoard's event files. The folder has one file for each time that the sink was opened.
Status ForEachRowOfFolder(const std::string& path, const VisitRow& visit) {
  std::error_code error;
  if (std::filesystem::exists(path + "/zarr.json", error)) return ForEachZarrRow(path, visit);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().filename().string().find("tfevents") != std::string::npos) files.push_back(entry.path().string());
  }
  if (files.empty()) return InvalidArgument("it is a folder without a zarr.json and without files of events");
  std::sort(files.begin(), files.end());
  bool more = true;
  for (const std::string& file : files) {
    if (more) CALLOUT_RETURN_IF_ERROR(ForEachRowAt(file, [&](const WrittenRow& row) { return more = visit(row); }));
  }
  return OkStatus();
}

}  // namespace

Status ForEachWrittenRow(const std::string& path, const VisitRow& visit) {
  std::error_code ignored;
  Status status =
      std::filesystem::is_directory(path, ignored) ? ForEachRowOfFolder(path, visit) : ForEachRowAt(path, visit);
  if (status.ok()) return status;
  return status.WithMessage("callout: cannot read '" + path + "': " + std::string(status.message()));
}

void AppendCellJson(const WrittenCell& cell, std::string& out) {
  switch (cell.kind) {
    case WrittenCell::Kind::kNothing:
      out += "null";
      break;
    case WrittenCell::Kind::kText:
      callout::AppendJson(cell.text, out);
      break;
    case WrittenCell::Kind::kJson:
      out += cell.text;
      break;
  }
}

void AppendCellCsv(std::string_view text, std::string& out) { internal::AppendCsvCell(text, out); }

}  // namespace callout::pjrt
