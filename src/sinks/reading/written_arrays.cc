// SPDX-License-Identifier: Apache-2.0
#include "sinks/reading/written_arrays.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "callout/abi.h"
#include "callout/text.h"
#include "core/base/cat.h"
#include "core/encoding/utf8.h"
#include "core/encoding/wire.h"
#include "sinks/arrays/arrow_reader.h"
#include "sinks/arrays/npy_sink.h"
#include "sinks/arrays/zarr_array.h"
#include "sinks/files/tf_record.h"

namespace callout::pjrt {
namespace {

constexpr uint64_t kMaxRow = 1 << 30;  // In bytes.

Status TooLarge() { return InvalidArgument("a row of it has more than 1 GiB"); }

// Returns the size of a row of this type, or an error if it exceeds kMaxRow.
Result<uint64_t> RowBytes(DType dtype, std::span<const int64_t> shape) {
  auto bytes = static_cast<uint64_t>(BitWidth(dtype) / 8);
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes) || bytes > kMaxRow) return TooLarge();
  }
  return bytes;
}

WrittenCell ArrayCell(std::string name, DType dtype, std::span<const int64_t> shape, std::string_view bytes) {
  callout_buffer buffer = {};
  buffer.dtype = static_cast<uint32_t>(dtype);
  buffer.rank = static_cast<uint32_t>(shape.size());
  buffer.dims = shape.data();
  buffer.data = const_cast<char*>(bytes.data());
  buffer.size_bytes = bytes.size();
  WrittenCell cell{std::move(name), WrittenCell::Kind::kJson, ""};
  if (!callout::AppendJson(buffer, cell.text).ok()) cell.kind = WrittenCell::Kind::kNothing;
  return cell;
}

WrittenCell NumberCell(std::string name, int64_t number) {
  return {std::move(name), WrittenCell::Kind::kJson, std::to_string(number)};
}

std::string TimeText(int64_t microseconds) {
  constexpr int64_t kSecond = 1'000'000;
  const int64_t within = ((microseconds % kSecond) + kSecond) % kSecond;
  const auto seconds = static_cast<std::time_t>((microseconds - within) / kSecond);
  std::tm utc = {};
  char text[64] = "";
  if (gmtime_r(&seconds, &utc) == nullptr) return std::to_string(microseconds);
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  const std::string digits = std::to_string(kSecond + within).substr(1);
  return std::string(text, length) + "." + digits + "Z";
}

WrittenCell ArrowCell(const internal::ArrowColumn& column, const internal::ArrowReader::Values& values, size_t row) {
  using Kind = internal::ArrowColumn::Kind;
  if (!values.IsValid(row)) return {column.name, WrittenCell::Kind::kNothing, ""};
  if (column.kind == Kind::kText) {
    return {column.name, WrittenCell::Kind::kText, internal::ValidUtf8(values.TextAt(row))};
  }
  const size_t bytes = static_cast<size_t>(column.elements()) * static_cast<size_t>(BitWidth(column.dtype) / 8);
  const std::string_view data = std::string_view(values.data).substr(row * bytes, bytes);
  if (column.kind == Kind::kNumber) return ArrayCell(column.name, column.dtype, column.shape, data);
  int64_t time = 0;
  std::memcpy(&time, data.data(), sizeof(time));
  return {column.name, WrittenCell::Kind::kText, TimeText(time)};
}

}  // namespace

Status ReadFileAt(int fd, uint64_t offset, uint64_t bytes, std::string& out) {
  out.resize(bytes);
  for (uint64_t at = 0; at < bytes;) {
    const ssize_t n = pread(fd, out.data() + at, bytes - at, static_cast<off_t>(offset + at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return InternalError(std::strerror(errno));
    if (n == 0) return InvalidArgument(internal::Cat("it ends before byte ", offset + bytes));
    at += static_cast<uint64_t>(n);
  }
  return OkStatus();
}

Status ForEachArrowRow(const OpenedFile& file, const VisitRow& visit) {
  CALLOUT_ASSIGN_OR_RETURN(internal::ArrowReader reader, internal::ArrowReader::Open(file.fd, file.size));
  while (true) {
    CALLOUT_ASSIGN_OR_RETURN(const bool is_there, reader.Next());
    if (!is_there) return OkStatus();
    std::vector<internal::ArrowReader::Values> columns;
    for (size_t i = 0; i < reader.columns().size(); ++i) {
      CALLOUT_ASSIGN_OR_RETURN(internal::ArrowReader::Values values, reader.Read(i));
      columns.push_back(std::move(values));
    }
    for (size_t row = 0; row < reader.rows(); ++row) {
      WrittenRow cells;
      for (size_t i = 0; i < columns.size(); ++i) cells.push_back(ArrowCell(reader.columns()[i], columns[i], row));
      if (!visit(cells)) return OkStatus();
    }
  }
}

Status ForEachNpyRow(const OpenedFile& file, const VisitRow& visit) {
  std::string bytes;
  CALLOUT_RETURN_IF_ERROR(ReadFileAt(file.fd, 0, std::min<uint64_t>(file.size, 1 << 17), bytes));
  CALLOUT_ASSIGN_OR_RETURN(const internal::NpyHead head, internal::ParseNpyHead(bytes));
  const bool is_one = head.shape.empty();
  const std::span<const int64_t> shape(head.shape.begin() + (is_one ? 0 : 1), head.shape.end());
  CALLOUT_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(head.dtype, shape));
  const int64_t rows = is_one ? 1 : head.shape[0];
  const uint64_t room = file.size - head.bytes;
  if (row_bytes > 0 ? static_cast<uint64_t>(rows) > room / row_bytes : static_cast<uint64_t>(rows) > kMaxRow) {
    return InvalidArgument("it has less bytes than its head tells");
  }
  for (int64_t row = 0; row < rows; ++row) {
    CALLOUT_RETURN_IF_ERROR(ReadFileAt(file.fd, head.bytes + static_cast<uint64_t>(row) * row_bytes, row_bytes, bytes));
    if (!visit({ArrayCell("value", head.dtype, shape, bytes)})) return OkStatus();
  }
  return OkStatus();
}

namespace {

WrittenCell FloatCell(uint32_t bits) {
  return ArrayCell("value", DType::kFloat32, {}, {reinterpret_cast<const char*>(&bits), sizeof(bits)});
}

// Reads a tensor of a summary, which holds numbers or bytes. Earlier versions wrote scalars as tensors.
WrittenCell TensorCell(std::string_view tensor) {
  using internal::WireField;
  enum Tensor { kShape = 2, kContent = 4, kFloats = 5, kStrings = 8 };
  WrittenCell cell{"value", WrittenCell::Kind::kNothing, ""};
  std::vector<std::string> texts;
  internal::WireReader fields(tensor);
  while (const auto field = fields.Next()) {
    if (field->number == kFloats) {
      std::string bytes(field->bytes.substr(0, sizeof(float)));
      const auto bits = static_cast<uint32_t>(field->value);
      if (!field->is_bytes) bytes.assign(reinterpret_cast<const char*>(&bits), sizeof(bits));
      if (bytes.size() == sizeof(float)) cell = ArrayCell("value", DType::kFloat32, {}, bytes);
    } else if (field->number == kContent && field->is_bytes) {
      constexpr int64_t kColumns = 3;  // A histogram's columns are from, to, count.
      const auto rows = static_cast<int64_t>(field->bytes.size() / (kColumns * sizeof(double)));
      const int64_t shape[] = {rows, kColumns};
      const std::string bytes(field->bytes.substr(0, static_cast<size_t>(rows) * kColumns * sizeof(double)));
      cell = ArrayCell("value", DType::kFloat64, shape, bytes);
    } else if (field->number == kStrings && field->is_bytes) {
      const bool is_png = field->bytes.starts_with("\x89PNG");
      texts.push_back(is_png ? internal::Cat("PNG of ", field->bytes.size(), " bytes")
                             : internal::ValidUtf8(field->bytes));
    }
  }
  if (texts.empty()) return cell;
  cell.kind = WrittenCell::Kind::kText;
  cell.text += internal::Join(texts, ", ");
  return cell;
}

}  // namespace

Status ForEachEvent(const OpenedFile& file, const VisitRow& visit) {
  enum Event { kWallTime = 1, kStep = 2, kSummary = 5 };
  enum Value { kTag = 1, kSimpleValue = 2, kTensor = 8 };
  uint64_t offset = 0;
  while (const auto record = internal::ReadTfRecord(file.fd, offset, file.size)) {
    internal::WireReader event(*record);
    double time = 0;
    int64_t step = 0;
    std::vector<std::string_view> values;
    while (const auto field = event.Next()) {
      if (field->number == kWallTime && !field->is_bytes) time = std::bit_cast<double>(field->value);
      if (field->number == kStep && !field->is_bytes) step = static_cast<int64_t>(field->value);
      if (field->number != kSummary || !field->is_bytes) continue;
      internal::WireReader summary(field->bytes);
      while (const auto value = summary.Next()) {
        if (value->number == 1 && value->is_bytes) values.push_back(value->bytes);
      }
      if (!summary.ok()) return InvalidArgument("an event of it is malformed");
    }
    if (!event.ok()) return InvalidArgument("an event of it is malformed");
    for (const std::string_view value : values) {
      WrittenCell tag{"tag", WrittenCell::Kind::kText, ""}, cell{"value", WrittenCell::Kind::kNothing, ""};
      internal::WireReader fields(value);
      while (const auto field = fields.Next()) {
        if (field->number == kTag) tag.text = internal::ValidUtf8(field->bytes);
        if (field->number == kSimpleValue && !field->is_bytes) cell = FloatCell(static_cast<uint32_t>(field->value));
        if (field->number == kTensor) cell = TensorCell(field->bytes);
      }
      constexpr double kMicroseconds = 1e6, kMostSeconds = 1e12;
      const double seconds = time >= -kMostSeconds && time <= kMostSeconds ? time : 0;
      WrittenCell when{"time", WrittenCell::Kind::kText, TimeText(static_cast<int64_t>(seconds * kMicroseconds))};
      if (!visit({std::move(tag), NumberCell("step", step), std::move(when), std::move(cell)})) return OkStatus();
    }
  }
  if (offset == file.size || offset > 0) return OkStatus();
  return InvalidArgument("it is no file of events");
}

namespace {

// Limits missing rows, and missing chunks of one row: zarr.json may claim more than anybody can wait for.
constexpr int64_t kMostMissing = 1 << 20;

// Counts what has been missing since the last chunk that exists.
struct Hole {
  int64_t chunks = 0;
  int64_t rows = 0;
  int64_t all_of = -1;  // The index, along the rows, of chunks that are all missing.
};

Status TooMuchMissing(const char* what, int64_t row) {
  return InvalidArgument(
      internal::Cat("of the last ", kMostMissing, " ", what, ", up to row ", row, ", none is there"));
}

// Reads a row of an array from the chunks of all writers. Missing chunks read as the fill value, which is zero. Each
// missing chunk counts once, at its first row.
Status ReadZarrRow(const std::string& folder, const internal::ZarrArray& array, int64_t row, Hole& hole,
                   std::string& out) {
  const auto item = static_cast<uint64_t>(BitWidth(array.dtype) / 8);
  CALLOUT_ASSIGN_OR_RETURN(const uint64_t row_bytes, RowBytes(array.dtype, array.shape));
  CALLOUT_ASSIGN_OR_RETURN(const uint64_t part_bytes, RowBytes(array.dtype, array.chunk));
  out.assign(row_bytes, '\0');
  if (row_bytes == 0) return OkStatus();
  const int64_t chunk = row / array.chunk_rows;
  ++hole.rows;
  if (hole.all_of == chunk) return hole.rows > kMostMissing ? TooMuchMissing("rows", row) : OkStatus();
  hole.all_of = chunk;
  const size_t rank = array.shape.size();
  std::vector<int64_t> writer(rank);
  std::string part;
  while (true) {
    std::string path = internal::Cat(folder, "/c/", chunk);
    for (const int64_t index : writer) path += internal::Cat("/", index);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno != ENOENT) return InternalError("'" + path + "': " + std::strerror(errno));
    if (fd < 0 && row % array.chunk_rows == 0 && hole.chunks++ == kMostMissing) return TooMuchMissing("chunks", row);
    if (fd >= 0) {
      hole = {};
      const auto offset = static_cast<uint64_t>(row % array.chunk_rows) * part_bytes;
      Status status = ReadFileAt(fd, offset, part_bytes, part);
      close(fd);
      CALLOUT_RETURN_IF_ERROR(std::move(status));
      for (uint64_t from = 0; from < part_bytes; from += item) {  // Copies each element to its position.
        uint64_t at = from / item, to = 0, stride = 1;
        bool inside = true;
        for (size_t axis = rank; axis-- > 0;) {
          const auto extent = static_cast<uint64_t>(array.chunk[axis]);
          const auto index = static_cast<uint64_t>(writer[axis]) * extent + at % extent;
          inside = inside && index < static_cast<uint64_t>(array.shape[axis]);
          to += index * stride;
          stride *= static_cast<uint64_t>(array.shape[axis]);
          at /= extent;
        }
        if (inside) std::memcpy(out.data() + to * item, part.data() + from, item);
      }
    }
    size_t axis = rank;
    for (; axis > 0; --axis) {
      if (++writer[axis - 1] * array.chunk[axis - 1] < array.shape[axis - 1]) break;
      writer[axis - 1] = 0;
    }
    if (axis == 0) break;
  }
  return OkStatus();
}

Status ForEachRowOfArray(const std::string& folder, const std::string& name, std::string_view text, bool& more,
                         const VisitRow& visit) {
  CALLOUT_ASSIGN_OR_RETURN(const internal::ZarrArray array, internal::ParseZarrArray(text));
  int64_t rows = 0;
  for (const auto& [writer, written] : array.written) rows = std::max(rows, written);
  std::string bytes;
  Hole hole;
  for (int64_t row = 0; row < rows && more; ++row) {
    CALLOUT_RETURN_IF_ERROR(ReadZarrRow(folder, array, row, hole, bytes));
    if (bytes.empty()) return OkStatus();
    more = visit({{"array", WrittenCell::Kind::kText, name},
                  NumberCell("row", row),
                  ArrayCell("value", array.dtype, array.shape, bytes)});
  }
  return OkStatus();
}

Status ForEachZarrNode(const std::string& folder, const std::string& name, int depth, bool& more,
                       const VisitRow& visit) {
  constexpr int kMaxDepth = 32;
  const Result<std::string> text = internal::ReadZarrText(folder + "/zarr.json");
  if (!text.ok()) return text.status();
  if (!internal::IsZarrGroup(*text)) return ForEachRowOfArray(folder, name, *text, more, visit);
  std::error_code error;
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (std::filesystem::exists(entry.path() / "zarr.json", error)) names.insert(entry.path().filename().string());
  }
  if (depth == kMaxDepth) return InvalidArgument("its groups are too deep");
  for (const std::string& each : names) {
    if (!more) break;
    std::string inner = name;
    inner.append(name.empty() ? "" : "/").append(each);
    std::string inner_folder = folder;
    inner_folder.append("/").append(each);
    Status status = ForEachZarrNode(inner_folder, inner, depth + 1, more, visit);
    if (!status.ok())
      return depth > 0 ? std::move(status) : status.WithMessage(inner + ": " + std::string(status.message()));
  }
  return OkStatus();
}

}  // namespace

Status ForEachZarrRow(const std::string& folder, const VisitRow& visit) {
  bool more = true;
  return ForEachZarrNode(folder, "", 0, more, visit);
}

}  // namespace callout::pjrt
