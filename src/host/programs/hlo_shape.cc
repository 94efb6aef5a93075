// SPDX-License-Identifier: Apache-2.0
#include "host/programs/hlo_shape.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/encoding/wire.h"
#include "core/frame/dtype_row.h"
#include "core/frame/row_major.h"

namespace callout::internal {
namespace {

constexpr int kElementType = 2;
constexpr int kDimensions = 3;
constexpr int kTupleShapes = 4;
constexpr int kLayout = 5;
constexpr int kIsDynamic = 6;
constexpr int kMinorToMajor = 1;  // of LayoutProto
constexpr uint64_t kTuple = 13;   // of xla.PrimitiveType

bool ReadLayout(std::string_view bytes, std::vector<int64_t>& order) {
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kMinorToMajor && !AppendNumbers(*field, order)) return false;
  }
  return reader.ok();
}

}  // namespace

Status UnreadableHlo() { return InternalError("callout: the plugin tells of the program in a form that is not known"); }

Result<HloShape> ParseHloShape(std::string_view bytes) {
  HloShape shape;
  uint64_t element_type = 0;
  std::vector<int64_t> dynamic, order;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == kElementType) element_type = field->value;
    if (field->number == kDimensions && !AppendNumbers(*field, shape.type.dims)) return UnreadableHlo();
    if (field->number == kIsDynamic && !AppendNumbers(*field, dynamic)) return UnreadableHlo();
    if (field->number == kLayout && !ReadLayout(field->bytes, order)) return UnreadableHlo();
    if (field->number == kTupleShapes) shape.elements.push_back(field->bytes);
  }
  if (!reader.ok()) return UnreadableHlo();
  if (std::any_of(dynamic.begin(), dynamic.end(), [](int64_t is_dynamic) { return is_dynamic != 0; })) {
    return Unimplemented("callout: the program has arrays with bounds in place of extents");
  }
  shape.is_row_major = IsRowMajor(order);
  shape.is_tuple = element_type == kTuple;
  if (!shape.is_tuple && RowOf(static_cast<DType>(element_type)).kind == DTypeKind::kUnknown) {
    return Unimplemented("callout: the program has arrays of element type " + std::to_string(element_type) + " of XLA");
  }
  shape.type.dtype = static_cast<DType>(element_type);
  return shape;
}

}  // namespace callout::internal
