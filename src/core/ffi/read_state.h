// SPDX-License-Identifier: Apache-2.0
//
// The state of a read of the host's objects in an executable, on every platform. read_handler.cc has the handlers of
// CPUs.
#pragma once

#include <cstdint>
#include <span>

#include "core/attributes/site_attributes.h"
#include "core/frame/ffi_abi.h"
#include "core/handles/agreement.h"
#include "core/handles/handle_table.h"

namespace callout::internal {

class ReadState : public SiteState {
 public:
  explicit ReadState(const ReadAttributes& attributes)
      : kind_(attributes.kind), devices_(attributes.devices), agreement_(attributes.devices) {}

  /// Reads the objects of `handles`, u32[...,4], into `results`. All buffers are in the host's memory.
  /// Errors: those of HandleTable::WhyNotFound for an operand that is no handle of an object; InvalidArgument for
  /// operands and results that do not fit.
  Status Read(XLA_FFI_CallFrame* frame, std::span<const callout_buffer> handles,
              std::span<const callout_buffer> results) const;
  /// Reads the objects of the frame's operand into the frame's results.
  Status ReadOnHost(XLA_FFI_CallFrame* frame) const;

 private:
  Status ReadOne(XLA_FFI_CallFrame* frame, const Handle& handle, const Wanted& wanted) const;

  const HandleKind kind_;
  const int64_t devices_;
  mutable Agreement agreement_;
};

}  // namespace callout::internal
