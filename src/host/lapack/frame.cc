// SPDX-License-Identifier: Apache-2.0
#include "host/lapack/frame.h"

#include "callout/dtype.h"
#include "core/base/cat.h"

namespace callout::internal::lapack {

Status Frame::ExpectCounts(int64_t args, int64_t rets) const {
  if (frame_->args.size == args && frame_->rets.size == rets) return OkStatus();
  return Bad(
      Cat("expected ", args, " operands and ", rets, " results, got ", frame_->args.size, " and ", frame_->rets.size));
}

Status Frame::ExpectSame(int64_t expected, int64_t found, const char* what) const {
  if (expected == found) return OkStatus();
  return Bad(Cat(what, ": expected ", expected, ", got ", found));
}

Status Frame::Check(const char* kind, int64_t i, const XLA_FFI_Buffer& buffer, uint32_t dtype, size_t inner) const {
  const std::string what = Cat(kind, " ", i);
  if (static_cast<uint32_t>(buffer.dtype) != dtype) {
    return Bad(what + ": expected elements of type " + std::string(ShortName(static_cast<DType>(dtype))) + ", got " +
               std::string(ShortName(static_cast<DType>(buffer.dtype))));
  }
  if (buffer.rank < static_cast<int64_t>(inner)) {
    return Bad(Cat(what, ": expected at least ", inner, " axes, got ", buffer.rank));
  }
  for (int64_t axis = buffer.rank - static_cast<int64_t>(inner); axis < buffer.rank; ++axis) {
    if (buffer.dims[axis] > std::numeric_limits<Int>::max()) {
      return Bad(Cat(what, ": an extent of ", buffer.dims[axis], " is more than LAPACK can count"));
    }
  }
  return OkStatus();
}

const XLA_FFI_Scalar* Frame::FindScalar(const char* name, XLA_FFI_DataType dtype) const {
  const XLA_FFI_Attrs& attrs = frame_->attrs;
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) != name) continue;
    const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attrs.attrs[i]);
    return attrs.types[i] == XLA_FFI_AttrType_SCALAR && scalar->dtype == dtype ? scalar : nullptr;
  }
  return nullptr;
}

Result<char> Frame::Flag(const char* name, std::string_view allowed) const {
  const XLA_FFI_Scalar* scalar = FindScalar(name, XLA_FFI_DataType_U8);
  if (scalar == nullptr) return Bad(std::string("expected an attribute '") + name + "' of type u8");
  const char flag = *static_cast<const char*>(scalar->value);
  if (allowed.find(flag) != std::string_view::npos && flag != '\0') return flag;
  return Bad(Cat("attribute '", name, "': expected one of '", allowed, "', got ", static_cast<unsigned char>(flag)));
}

Result<Int> Frame::Integer(const char* name) const {
  const XLA_FFI_Scalar* scalar = FindScalar(name, XLA_FFI_DataType_S32);
  if (scalar == nullptr) return Bad(std::string("expected an attribute '") + name + "' of type s32");
  Int value;
  std::memcpy(&value, scalar->value, sizeof(value));
  return value;
}

}  // namespace callout::internal::lapack
