// SPDX-License-Identifier: Apache-2.0
#include "sinks/arrays/stored_type.h"

#include <algorithm>
#include <array>

#include "core/base/cat.h"
#include "core/base/invariant.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"

namespace callout::internal {
namespace {

template <typename T>
void Convert(const callout_buffer& buffer, std::string& memory) {
  constexpr int64_t kAtOnce = 1024;  // A multiple of 8, which elements smaller than a byte require.
  std::array<double, kAtOnce> values;
  std::array<T, kAtOnce> converted;
  const int64_t count = ElementCount(buffer);
  for (int64_t i = 0; i < count; i += kAtOnce) {
    const auto some = static_cast<size_t>(std::min(kAtOnce, count - i));
    CALLOUT_CHECK(ReadDoubles(buffer, i, some, values.data()).ok(), "an array has elements that are no numbers");
    std::transform(values.begin(), values.begin() + static_cast<ptrdiff_t>(some), converted.begin(),
                   [](double value) { return static_cast<T>(value); });
    memory.append(reinterpret_cast<const char*>(converted.data()), some * sizeof(T));
  }
}

}  // namespace

Status CheckStoredRank(size_t axes) {
  if (axes <= kMaxStoredRank) return OkStatus();
  return InvalidArgument(Cat("an array of ", axes, " axes, where files have ", kMaxStoredRank, " at most"));
}

Result<DType> StoredType(DType dtype) {
  const DTypeRow& row = RowOf(dtype);
  if (row.is_integer()) {
    if (row.bits >= 8) return dtype;
    return row.kind == DTypeKind::kSigned ? DType::kInt8 : DType::kUint8;
  }
  if (row.kind == DTypeKind::kFloat) {
    return dtype == DType::kFloat16 || row.bits >= 32 ? dtype : DType::kFloat32;
  }
  if (row.kind == DTypeKind::kBool || row.kind == DTypeKind::kComplex) return dtype;
  return InvalidArgument("elements of type " + std::string(row.short_name) + " cannot be stored");
}

std::string TypeText(DType dtype, std::span<const int64_t> shape) {
  return Cat(ShortName(dtype), "[", Join(shape, ","), "]");
}

uint64_t StoredBytes(const callout_buffer& buffer, DType stored) {
  return static_cast<uint64_t>(ElementCount(buffer)) * static_cast<uint64_t>(BitWidth(stored) / 8);
}

std::string_view StoredElements(const callout_buffer& buffer, DType stored, std::string& memory) {
  if (stored == static_cast<DType>(buffer.dtype)) {
    return {static_cast<const char*>(buffer.data), static_cast<size_t>(buffer.size_bytes)};
  }
  memory.clear();
  if (stored == DType::kFloat32) {
    Convert<float>(buffer, memory);
  } else if (stored == DType::kInt8) {
    Convert<int8_t>(buffer, memory);
  } else {
    Convert<uint8_t>(buffer, memory);
  }
  return memory;
}

}  // namespace callout::internal
