// SPDX-License-Identifier: Apache-2.0
//
// Python functions that programs know by a handle: a tap sends the handle in front of the value.
#pragma once

#include "python_api.h"

#include <cstdint>
#include <utility>

#include "core/handles/handle_table.h"
#include "gil.h"

namespace callout::python {

/// Programs can refer to the object but not read it. Any thread may destroy it, with the GIL or without.
class FunctionObject final : public internal::HostObject {
 public:
  explicit FunctionObject(Ref function) : function_(std::move(function)) {}

  internal::HandleKind kind() const override { return internal::HandleKind::kFunction; }

  /// Borrowed: valid as long as this object.
  PyObject* function() const { return function_.get(); }

  /// Returns the function of a handle, u32[4]. FailedPrecondition if there is none. Requires GIL.
  static Result<Ref> Find(const callout_buffer& handle) {
    using internal::Handle, internal::HandleKind, internal::HandleTable;
    if (handle.size_bytes != sizeof(Handle)) {
      return InvalidArgument("expected the handle of one function, u32[4], before the value");
    }
    const Handle words = Handle::Of(handle.data);
    const HandleTable::Found found = HandleTable::Get().Find(words, HandleKind::kFunction);
    if (!found) return HandleTable::Get().WhyNotFound(words, HandleKind::kFunction);
    return Ref::Borrow(static_cast<const FunctionObject&>(*found).function());
  }

 private:
  const SharedRef function_;
};

}  // namespace callout::python
