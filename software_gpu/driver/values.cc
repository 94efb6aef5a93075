// SPDX-License-Identifier: Apache-2.0
//
// Operations of streams on values in memory (Driver API, Stream Memory Operations).
#include "driver/enqueue.h"
#include "driver/graph_run.h"

namespace callout::software_gpu {
namespace {

// Queues a batch of operations on values. A single operation is a batch of one, in graphs too.
CUresult EnqueueBatch(const char* function, CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                      unsigned int flags) {
  const Call call(function, kContext);
  if (call.refused()) return call.result();
  WorkPtr work;
  const CUDA_BATCH_MEM_OP_NODE_PARAMS params{call.context(), count, operations, flags};
  const CUresult wrong = MakeBatchWork(call.state(), call.context(), params, &work);
  if (wrong != CUDA_SUCCESS) return wrong;
  return Enqueue(call.state(), call.context(), stream,
                 {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                  .record =
                      [&](WorkPtr* recorded) {
                        *recorded = work;
                        return CUDA_SUCCESS;
                      },
                  .run = [work] { return PerformBatch(std::get<BatchWork>(*work)); }});
}

CUresult EnqueueValue(const char* function, CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr at,
                      cuuint64_t value, unsigned int flags) {
  CUstreamBatchMemOpParams operation = {};
  operation.writeValue.operation = type;
  operation.writeValue.address = at;
  operation.writeValue.value64 = value;
  operation.writeValue.flags = flags;
  return EnqueueBatch(function, stream, 1, &operation, 0);
}

}  // namespace

extern "C" CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags) {
  return EnqueueValue("cuStreamWriteValue32", stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, at, value, flags);
}

extern "C" CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags) {
  return EnqueueValue("cuStreamWriteValue64", stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, at, value, flags);
}

extern "C" CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags) {
  return EnqueueValue("cuStreamWaitValue32", stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, at, value, flags);
}

extern "C" CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr at, cuuint64_t value, unsigned int flags) {
  return EnqueueValue("cuStreamWaitValue64", stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, at, value, flags);
}

extern "C" CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                                          unsigned int flags) {
  return EnqueueBatch("cuStreamBatchMemOp", stream, count, operations, flags);
}

}  // namespace callout::software_gpu
