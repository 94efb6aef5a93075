// SPDX-License-Identifier: Apache-2.0
#include "core/handles/host_value.h"

#include "core/base/cat.h"
#include "core/base/hazard.h"
#include "core/frame/buffer.h"

namespace callout::internal {

Status HostValue::ReadInto(const Wanted& wanted) const {
  const std::vector<HostArray>* arrays = nullptr;
  const Hazard hazard = Hazard::Of(arrays_, arrays);
  return Write(*arrays, wanted);
}

Status HostValue::Set(std::vector<HostArray> next) {
  const Answer first = Read();
  if (next.size() != first->size()) {
    return InvalidArgument(Cat("callout: HostValue: expected ", first->size(), " arrays, got ", next.size()));
  }
  for (size_t i = 0; i < next.size(); ++i) {
    const HostArray& expected = (*first)[i];
    if (expected.dtype == next[i].dtype && expected.dims == next[i].dims) continue;
    return InvalidArgument(Cat("callout: HostValue: array ", i, ": expected ", ShapeString(expected.view()), ", got ",
                               ShapeString(next[i].view())));
  }
  Answer shared = Share(std::move(next));
  {
    const MutexLock lock(mutex_);
    arrays_.store(shared.get(), std::memory_order_seq_cst);  // before WaitForReaders
    now_.swap(shared);
  }
  Hazard::WaitForReaders(shared.get());  // the old arrays are destroyed after it
  return OkStatus();
}

}  // namespace callout::internal
