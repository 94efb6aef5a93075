// SPDX-License-Identifier: Apache-2.0
#include "host/pjrt/loans.h"

#include <atomic>
#include <map>

#include "callout/elements.h"
#include "core/base/live_count.h"
#include "core/base/thread_annotations.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {
namespace {

struct Lent {
  int loans = 0;
  bool is_orphan = false;  // the owner has destroyed the buffer, which its last loan will destroy
};

struct Loans {
  // The number of buffers that are lent. It is nearly always 0, which a buffer's destruction sees without the lock.
  // Relaxed: an owner that lends and destroys on different threads has ordered the two itself, and the mutex orders the
  // rest.
  std::atomic<int> count{0};
  Mutex mutex;
  std::map<PJRT_Buffer*, Lent> lent CALLOUT_GUARDED_BY(mutex);
};

Loans& GetLoans() {
  static Loans* const loans = new Loans;  // leaked: plugins' threads return loans until the process ends
  return *loans;
}

}  // namespace

// The plugin counts a buffer's external references without a lock. So all loans of a buffer share one reference, which
// is taken and dropped under the mutex of Loans.
Result<std::unique_ptr<Loan>> Loan::Take(const PjrtApi& api, PJRT_Buffer* source) {
  Loans& loans = GetLoans();
  MutexLock lock(loans.mutex);
  Lent& lent = loans.lent[source];
  if (lent.loans == 0) {
    PjrtArgs<PJRT_Buffer_IncreaseExternalReferenceCount_Args> hold;
    hold.buffer = source;
    if (Status status = CALLOUT_PJRT(api, PJRT_Buffer_IncreaseExternalReferenceCount, hold); !status.ok()) {
      loans.lent.erase(source);
      return status;
    }
    loans.count.fetch_add(1, std::memory_order_relaxed);
  }
  ++lent.loans;
  return std::unique_ptr<Loan>(new Loan(api, source));
}

Loan::~Loan() {
  if (!EndsOrphan()) return;
  PjrtArgs<PJRT_Buffer_Destroy_Args> destroy;
  destroy.buffer = source_;
  api_.Destroy(&PJRT_Api::PJRT_Buffer_Destroy, destroy);
  LiveCounter(LiveKind::kPjrtBuffer).fetch_sub(1, std::memory_order_relaxed);
}

bool Loan::EndsOrphan() const {
  Loans& loans = GetLoans();
  MutexLock lock(loans.mutex);
  const auto it = loans.lent.find(source_);
  if (--it->second.loans > 0) return false;
  PjrtArgs<PJRT_Buffer_DecreaseExternalReferenceCount_Args> release;
  release.buffer = source_;
  api_.Destroy(&PJRT_Api::PJRT_Buffer_DecreaseExternalReferenceCount, release);
  const bool is_orphan = it->second.is_orphan;
  loans.lent.erase(it);
  loans.count.fetch_sub(1, std::memory_order_relaxed);
  return is_orphan;
}

Result<void*> Loan::Memory() const {
  PjrtArgs<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args> pointer;
  pointer.buffer = source_;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api_, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, pointer));
  return pointer.device_memory_ptr;
}

namespace {

void GiveBack(void* /*memory*/, void* loan) { delete static_cast<Loan*>(loan); }

Result<pjrt::Buffer> View(const pjrt::Buffer& source, const std::shared_ptr<const pjrt::Client>& client,
                          PJRT_Device* device) {
  const PjrtApi& api = client->plugin().api();
  PjrtArgs<PJRT_Buffer_ElementType_Args> type;
  type.buffer = source.handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Buffer_ElementType, type));
  PjrtArgs<PJRT_Buffer_Dimensions_Args> dims;
  dims.buffer = source.handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Buffer_Dimensions, dims));
  PjrtArgs<PJRT_Buffer_GetMemoryLayout_Args> layout;
  layout.buffer = source.handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Buffer_GetMemoryLayout, layout));
  PjrtArgs<PJRT_Buffer_IsOnCpu_Args> where;
  where.buffer = source.handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Buffer_IsOnCpu, where));
  if (!where.is_on_cpu) return FailedPrecondition("callout: the array is not in the host's memory");
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<Loan> loan, Loan::Take(api, source.handle()));
  CALLOUT_ASSIGN_OR_RETURN(void* const memory, loan->Memory());
  PjrtArgs<PJRT_Client_CreateViewOfDeviceBuffer_Args> view;
  view.client = client->handle();
  view.device_buffer_ptr = memory;
  view.dims = dims.dims;
  view.num_dims = dims.num_dims;
  view.element_type = type.type;
  view.layout = &layout.layout;
  view.device = device;
  view.on_delete_callback = &GiveBack;
  view.on_delete_callback_arg = loan.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Client_CreateViewOfDeviceBuffer, view));
  (void)loan.release();  // owned by GiveBack
  return pjrt::Buffer(client, view.buffer, source.type_tag());
}

}  // namespace

Result<pjrt::Buffer> Borrow(const pjrt::Buffer& source, std::shared_ptr<const pjrt::Client> client,
                            PJRT_Device* device) {
  CALLOUT_ASSIGN_OR_RETURN(pjrt::Event ready, source.Ready());
  CALLOUT_RETURN_IF_ERROR(ready.Wait());
  CALLOUT_ASSIGN_OR_RETURN(const DType dtype, source.dtype());
  if (!IsSubByte(dtype)) {  // plugins take views of sub-byte elements for arrays of bytes
    Result<pjrt::Buffer> view = View(source, client, device);
    if (view.ok()) return view;
  }
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, source.dims());
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, source.ToHost());
  const pjrt::Device on = {.handle = device, .id = 0, .ordinal = 0, .kind = {}, .memories = {}};
  return pjrt::Buffer::FromHost(std::move(client), on, dtype, dims, bytes.data());
}

bool LeaveToBorrowers(PJRT_Buffer* source) {
  Loans& loans = GetLoans();
  if (loans.count.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  MutexLock lock(loans.mutex);
  const auto it = loans.lent.find(source);
  if (it == loans.lent.end()) return false;
  it->second.is_orphan = true;
  return true;
}

}  // namespace callout::internal
