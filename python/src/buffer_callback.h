// SPDX-License-Identifier: Apache-2.0
//
// A Python function that works on XLA's own memory: fn(context, out, *args) fills the results in place.
#pragma once

#include "python_api.h"

#include <memory>
#include <string>

#include "calling.h"
#include "core/callbacks/callback.h"
#include "gil.h"

namespace callout::python {

struct BufferSignature {
  SharedRef function;
  /// Makes the argument `out` from the leaves of the results. If empty, `out` is the only leaf.
  SharedRef unflatten_out;
  /// Maps (context, out, *leaves of the arguments) to the (args tuple, kwargs dict) with which `function` is called. If
  /// empty, `function` is called with (context, out, *leaves).
  SharedRef unflatten;
  /// The user's promise that the function does not use JAX.
  bool numpy_only = false;
};

class BufferCallback final : public internal::Callback, public Traversable {
 public:
  /// Requires GIL. Any thread may destroy the callback, with the GIL or without.
  BufferCallback(std::string label, BufferSignature signature);

  internal::Worker worker() const override { return internal::Worker::kPython; }
  bool takes_device_memory() const override { return true; }
  /// GIL not needed; takes the GIL itself.
  Status Call(const callout_call& call) override;
  /// Always fails, because a buffer callback has results. Deliver is therefore never called.
  Status CheckTap(size_t num_leaves) const override;
  Status Deliver(const internal::Record& record) override;
  int Traverse(visitproc visit, void* arg) const override;

 private:
  class Buffers;

  Status CallWithGil(const callout_call& call);
  Ref CallFunction(Buffers& buffers);

  const BufferSignature signature_;
};

}  // namespace callout::python
