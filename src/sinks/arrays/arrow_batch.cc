// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/arrow_batch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/cat.h"
#include "core/encoding/json.h"
#include "core/frame/elements.h"
#include "sinks/arrays/stored_type.h"

namespace callout::internal {
namespace {

// Values of the union Type in Schema.fbs.
enum ArrowType : uint8_t { kInt = 2, kFloatingPoint = 3, kUtf8 = 5, kBool = 6, kTimestamp = 10, kFixedSizeList = 16 };
constexpr int64_t kVersion5 = 4, kUnitMicroseconds = 2;
constexpr std::string_view kExtensionName = "ARROW:extension:name", kExtensionMetadata = "ARROW:extension:metadata";
constexpr std::string_view kTensor = "arrow.fixed_shape_tensor";
constexpr size_t kMaxColumns = 100'000;

int64_t TypeOf(const ArrowColumn& column) {
  if (column.kind == ArrowColumn::Kind::kText) return kUtf8;
  if (column.kind == ArrowColumn::Kind::kTime) return kTimestamp;
  if (column.dtype == DType::kBool) return kBool;
  return RowOf(column.dtype).kind == DTypeKind::kFloat ? kFloatingPoint : kInt;
}

size_t AddType(const ArrowColumn& column, FlatWriter& out) {
  const DTypeRow& row = RowOf(column.dtype);
  switch (TypeOf(column)) {
    case kInt:
      return out
          .AddTable({FlatField::Number(4, row.bits), FlatField::Number(1, row.kind == DTypeKind::kSigned ? 1 : 0)})
          .position;
    case kFloatingPoint:
      return out.AddTable({FlatField::Number(2, row.bits == 16 ? 0 : row.bits == 32 ? 1 : 2)}).position;
    case kTimestamp: {
      const auto table = out.AddTable({FlatField::Number(2, kUnitMicroseconds), FlatField::Reference()});
      out.Point(table.fields[1], out.AddString("UTC"));
      return table.position;
    }
    default:
      return out.AddTable({}).position;
  }
}

std::string TensorMetadata(const ArrowColumn& column) { return Cat("{\"shape\":[", Join(column.shape, ","), "]}"); }

size_t AddPairs(const std::vector<std::pair<std::string_view, std::string>>& pairs, FlatWriter& out) {
  const size_t vector = out.AddVector(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto pair = out.AddTable({FlatField::Reference(), FlatField::Reference()});
    out.Point(FlatWriter::ReferenceAt(vector, i), pair.position);
    out.Point(pair.fields[0], out.AddString(pairs[i].first));
    out.Point(pair.fields[1], out.AddString(pairs[i].second));
  }
  return vector;
}

// Adds a Field of Schema.fbs: name, nullable, type, dictionary, children, custom_metadata.
size_t AddField(const ArrowColumn& column, FlatWriter& out) {
  const int64_t type = column.is_tensor ? static_cast<int64_t>(kFixedSizeList) : TypeOf(column);
  const auto field = out.AddTable({FlatField::Reference(), FlatField::Number(1, 1), FlatField::Number(1, type),
                                   FlatField::Reference(), FlatField::Absent(), FlatField::Reference(),
                                   column.is_tensor ? FlatField::Reference() : FlatField::Absent()});
  out.Point(field.fields[0], out.AddString(column.name));
  const size_t children = 5, metadata = 6;
  if (!column.is_tensor) {
    out.Point(field.fields[3], AddType(column, out));
    out.Point(field.fields[children], out.AddVector(0));
    return field.position;
  }
  out.Point(field.fields[3], out.AddTable({FlatField::Number(4, column.elements())}).position);
  const size_t vector = out.AddVector(1);
  out.Point(field.fields[children], vector);
  ArrowColumn element{.name = "item", .kind = column.kind, .dtype = column.dtype};
  out.Point(FlatWriter::ReferenceAt(vector, 0), AddField(element, out));
  out.Point(field.fields[metadata],
            AddPairs({{kExtensionName, std::string(kTensor)}, {kExtensionMetadata, TensorMetadata(column)}}, out));
  return field.position;
}

// The following functions parse schemas.

Status Malformed() { return InvalidArgument("its schema is malformed"); }

Status Foreign(const std::string& name, const std::string& what) {
  return InvalidArgument("its column '" + name + "' has " + what + ", which no sink writes");
}

Result<DType> NumberType(const FlatTable& field, int64_t type, const std::string& name) {
  if (type == kBool) return DType::kBool;
  const auto table = field.Table(3);
  if (!table) return Malformed();
  const bool is_float = type == kFloatingPoint;
  const auto size = is_float ? table->Number(0, 2, 0) : table->Number(0, 4, 0);
  const auto is_signed = is_float ? std::optional<int64_t>(1) : table->Number(1, 1, 0);
  if (!size || !is_signed) return Malformed();
  const int64_t bits = !is_float ? *size : *size == 0 ? 16 : *size == 1 ? 32 : *size == 2 ? 64 : 0;
  const DTypeKind kind = is_float ? DTypeKind::kFloat : *is_signed != 0 ? DTypeKind::kSigned : DTypeKind::kUnsigned;
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16,
                            DType::kUint32, DType::kUint64, DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    if (RowOf(dtype).kind == kind && RowOf(dtype).bits == bits) return dtype;
  }
  return Foreign(name, Cat("numbers of ", bits, " bits"));
}

Status ParseType(const FlatTable& field, ArrowColumn& column) {
  const auto type = field.Number(2, 1, 0);
  if (!type) return Malformed();
  if (*type == kUtf8) {
    column.kind = ArrowColumn::Kind::kText;
    return OkStatus();
  }
  if (*type == kTimestamp) {
    const auto table = field.Table(3);
    if (!table || table->Number(0, 2, 0) != kUnitMicroseconds) return Foreign(column.name, "other times");
    column.kind = ArrowColumn::Kind::kTime;
    column.dtype = DType::kInt64;
    return OkStatus();
  }
  if (*type != kInt && *type != kFloatingPoint && *type != kBool) {
    return Foreign(column.name, Cat("type ", *type));
  }
  CALLOUT_ASSIGN_OR_RETURN(column.dtype, NumberType(field, *type, column.name));
  return OkStatus();
}

std::optional<std::string_view> MetadataOf(const FlatTable& field, std::string_view key) {
  const auto count = field.Count(6, 4);
  for (size_t i = 0; count && i < *count; ++i) {
    const auto pair = field.TableAt(6, i);
    if (pair && pair->String(0) == key) return pair->String(1);
  }
  return std::nullopt;
}

Status ParseTensor(const FlatTable& field, ArrowColumn& column) {
  column.is_tensor = true;
  const auto list = field.Table(3);
  const auto child = field.TableAt(5, 0);
  const auto elements = list ? list->Number(0, 4, 0) : std::nullopt;
  if (!elements || *elements < 0 || !child) return Malformed();
  CALLOUT_RETURN_IF_ERROR(ParseType(*child, column));
  if (column.kind != ArrowColumn::Kind::kNumber) return Foreign(column.name, "lists of other things than numbers");
  column.shape = {*elements};
  if (MetadataOf(field, kExtensionName) != kTensor) return OkStatus();
  const auto metadata = ParseJson(MetadataOf(field, kExtensionMetadata).value_or(""));
  const Json* const shape = metadata ? metadata->Find("shape") : nullptr;
  if (shape == nullptr || shape->kind != Json::Kind::kArray || shape->items.size() > kMaxStoredRank) return Malformed();
  column.shape.clear();
  int64_t product = 1;
  for (const Json& extent : shape->items) {
    const auto number = extent.Integer();
    if (!number || *number < 0 || __builtin_mul_overflow(product, *number, &product)) return Malformed();
    column.shape.push_back(*number);
  }
  return product == *elements ? OkStatus() : Malformed();
}

}  // namespace

int64_t ArrowColumn::elements() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

uint64_t ArrowColumn::BytesOf(uint64_t rows) const {
  if (kind == Kind::kText) return 4 * (rows + 1);
  const uint64_t count = rows * static_cast<uint64_t>(elements());
  return dtype == DType::kBool ? (count + 7) / 8 : count * static_cast<uint64_t>(BitWidth(dtype) / 8);
}

std::string ArrowMessage(const FlatWriter& message) {
  constexpr uint32_t kMark = 0xFFFFFFFF;
  const std::string& bytes = message.bytes();
  const auto padded = static_cast<int32_t>((bytes.size() + kArrowAlignment - 1) / kArrowAlignment * kArrowAlignment);
  std::string out;
  out.append(reinterpret_cast<const char*>(&kMark), sizeof(kMark));
  out.append(reinterpret_cast<const char*>(&padded), sizeof(padded));
  out.append(bytes);
  out.resize(sizeof(kMark) + sizeof(padded) + static_cast<size_t>(padded));
  return out;
}

std::string SchemaMessage(const std::vector<ArrowColumn>& columns) {
  FlatWriter out;
  const auto message = out.AddTable({FlatField::Number(2, kVersion5), FlatField::Number(1, kArrowSchema),
                                     FlatField::Reference(), FlatField::Number(8, 0)});
  const auto schema = out.AddTable({FlatField::Number(2, 0), FlatField::Reference()});
  out.Point(message.fields[2], schema.position);
  const size_t fields = out.AddVector(columns.size());
  out.Point(schema.fields[1], fields);
  for (size_t i = 0; i < columns.size(); ++i) {
    out.Point(FlatWriter::ReferenceAt(fields, i), AddField(columns[i], out));
  }
  return ArrowMessage(out);
}

Result<std::vector<ArrowColumn>> ParseArrowSchema(const FlatTable& schema) {
  const auto count = schema.Count(1, 4);
  if (!count || *count > kMaxColumns || schema.Number(0, 2, 0) != 0) return Malformed();
  std::vector<ArrowColumn> columns;
  for (size_t i = 0; i < *count; ++i) {
    const auto field = schema.TableAt(1, i);
    const auto name = field ? field->String(0) : std::nullopt;
    if (!name) return Malformed();
    ArrowColumn column{.name = std::string(*name)};
    if (field->Has(4)) return Foreign(column.name, "a dictionary");
    const bool is_list = field->Number(2, 1, 0) == kFixedSizeList;
    CALLOUT_RETURN_IF_ERROR(is_list ? ParseTensor(*field, column) : ParseType(*field, column));
    columns.push_back(std::move(column));
  }
  return columns;
}

namespace {

// Appends one bit for each byte, set where the byte is not zero, low bits first.
void AppendBits(std::string_view bytes, std::string& out) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    unsigned bits = 0;
    for (size_t bit = 0; bit < std::min<size_t>(8, bytes.size() - i); ++bit) {
      bits |= (bytes[i + bit] != 0 ? 1U : 0U) << bit;
    }
    out += static_cast<char>(static_cast<unsigned char>(bits));
  }
}

uint64_t Padding(uint64_t bytes) { return (kArrowAlignment - bytes % kArrowAlignment) % kArrowAlignment; }

// Appends views of one static block of zeros, so that zeros of any length take no memory.
void AppendZeros(uint64_t bytes, std::vector<std::string_view>& views) {
  static constexpr char kZeros[64 << 10] = {};
  for (; bytes > sizeof(kZeros); bytes -= sizeof(kZeros)) views.emplace_back(kZeros, sizeof(kZeros));
  if (bytes > 0) views.emplace_back(kZeros, bytes);
}

}  // namespace

ArrowColumnRows::ArrowColumnRows(const ArrowColumn& column)
    : column_(&column),
      row_bytes_(column.kind == ArrowColumn::Kind::kText
                     ? 0
                     : static_cast<uint64_t>(column.elements()) * static_cast<uint64_t>(BitWidth(column.dtype) / 8)) {}

void ArrowColumnRows::Reserve(size_t rows) {
  if (!is_large()) memory_ = std::make_unique_for_overwrite<char[]>(rows * row_bytes_);
  end_ = memory_.get();
}

void ArrowColumnRows::AddTexts(std::string_view text, size_t rows) {
  const size_t bytes = texts_.size(), before = ends_.size();
  texts_.resize(bytes + rows * text.size());
  ends_.resize(before + rows);
  char* const to = texts_.data() + bytes;
  const size_t all = rows * text.size();
  std::copy_n(text.data(), std::min(text.size(), all), to);
  for (size_t done = text.size(); done < all; done *= 2) std::copy_n(to, std::min(done, all - done), to + done);
  for (size_t i = 0; i < rows; ++i) ends_[before + i] = static_cast<int32_t>(bytes + (i + 1) * text.size());
}

void ArrowColumnRows::AddNull(size_t row) {
  nulls_.push_back(row);
  if (column_->kind == ArrowColumn::Kind::kText) return ends_.push_back(static_cast<int32_t>(texts_.size()));
  if (is_large()) return;
  std::fill_n(end_, row_bytes_, '\0');
  end_ += row_bytes_;
}

void ArrowColumnRows::Clear() {
  end_ = memory_.get();
  large_ = nullptr;
  texts_.clear();
  ends_.clear();
  nulls_.clear();
  valid_bits_.clear();
  bits_.clear();
}

void ArrowColumnRows::AppendViews(Part part, size_t rows, std::vector<std::string_view>& views) {
  static constexpr char kBeginOfEnds[sizeof(int32_t)] = {};
  const bool is_text = column_->kind == ArrowColumn::Kind::kText;
  if (part == Part::kValid && !nulls_.empty()) {
    std::string valid(rows, '\1');
    for (const size_t row : nulls_) valid[row] = '\0';
    AppendBits(valid, valid_bits_);
    views.emplace_back(valid_bits_);
  } else if (part == Part::kEnds) {
    views.emplace_back(kBeginOfEnds, sizeof(kBeginOfEnds));
    views.emplace_back(reinterpret_cast<const char*>(ends_.data()), ends_.size() * sizeof(int32_t));
  } else if (part == Part::kData && is_text) {
    views.emplace_back(texts_);
  } else if (part == Part::kData && is_large() && large_ == nullptr) {  // The row is a null.
    AppendZeros(column_->BytesOf(rows), views);
  } else if (part == Part::kData) {
    const std::string_view bytes = is_large()
                                       ? std::string_view(large_, row_bytes_)
                                       : std::string_view(memory_.get(), static_cast<size_t>(end_ - memory_.get()));
    if (column_->dtype == DType::kBool) AppendBits(bytes, bits_);
    views.emplace_back(column_->dtype == DType::kBool ? bits_ : bytes);
  }
}

std::span<const ArrowColumnRows::Part> ArrowColumnRows::parts() const {
  static constexpr Part kOfNumbers[] = {Part::kValid, Part::kData},
                        kOfTexts[] = {Part::kValid, Part::kEnds, Part::kData},
                        kOfTensors[] = {Part::kValid, Part::kNothing, Part::kData};
  if (column_->kind == ArrowColumn::Kind::kText) return kOfTexts;
  if (column_->is_tensor) return kOfTensors;
  return kOfNumbers;
}

ArrowBatch::ArrowBatch(const std::vector<ArrowColumn>& columns) {
  for (const ArrowColumn& column : columns) {
    ArrowColumnRows& rows = columns_.emplace_back(column);
    row_bytes_ = std::min(kWriteAt, row_bytes_ + std::min(kWriteAt, rows.row_bytes()));
    if (rows.is_large()) row_bytes_ = kWriteAt;
  }
  const size_t most = (kWriteAt + row_bytes_ - 1) / row_bytes_;
  for (ArrowColumnRows& column : columns_) column.Reserve(most);
}

void ArrowBatch::Clear() {
  for (ArrowColumnRows& column : columns_) column.Clear();
  rows_ = 0;
  bytes_ = 0;
}

std::string ArrowBatch::Head(std::span<const int64_t> nodes, std::span<const int64_t> places, uint64_t body) const {
  FlatWriter message;
  const auto root = message.AddTable({FlatField::Number(2, 4), FlatField::Number(1, kArrowBatch),
                                      FlatField::Reference(), FlatField::Number(8, static_cast<int64_t>(body))});
  const auto batch = message.AddTable(
      {FlatField::Number(8, static_cast<int64_t>(rows_)), FlatField::Reference(), FlatField::Reference()});
  message.Point(root.fields[2], batch.position);
  message.Point(batch.fields[1], message.AddNumbers(nodes, 2));
  message.Point(batch.fields[2], message.AddNumbers(places, 2));
  return ArrowMessage(message);
}

std::span<const std::string_view> ArrowBatch::Message() {
  const auto rows = static_cast<int64_t>(rows_);
  nodes_.clear();
  places_.clear();
  views_.assign(1, {});
  uint64_t body = 0;
  for (ArrowColumnRows& column : columns_) {
    nodes_.insert(nodes_.end(), {rows, static_cast<int64_t>(column.nulls_.size())});
    if (column.column_->is_tensor) nodes_.insert(nodes_.end(), {rows * column.column_->elements(), 0});
    for (const ArrowColumnRows::Part part : column.parts()) {
      const size_t first = views_.size();
      column.AppendViews(part, rows_, views_);
      uint64_t bytes = 0;
      for (size_t i = first; i < views_.size(); ++i) bytes += views_[i].size();
      places_.insert(places_.end(), {static_cast<int64_t>(body), static_cast<int64_t>(bytes)});
      AppendZeros(Padding(bytes), views_);
      body += bytes + Padding(bytes);
    }
  }
  head_ = Head(nodes_, places_, body);
  views_[0] = head_;
  return views_;
}

}  // namespace callout::internal
