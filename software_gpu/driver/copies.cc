// SPDX-License-Identifier: Apache-2.0
//
// Copies and sets of memory, on streams and synchronous (Driver API, Memory Management).
#include <cstring>

#include "driver/enqueue.h"
#include "driver/graph_run.h"

namespace callout::software_gpu {
namespace {

CUdeviceptr AddressOf(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

bool IsDeviceMemory(State& state, const void* at) { return state.memory.Find(AddressOf(at), 1).memory != nullptr; }

// Queues a copy. Pageable memory is read from `staged` if it is given; in a graph, each launch reads it.
CUresult EnqueueCopy(State& state, CUcontext current, CUstream stream, const CUDA_MEMCPY3D& copy,
                     const std::shared_ptr<std::string>& staged) {
  CUDA_MEMCPY3D now = copy;
  if (staged != nullptr) {
    now.srcMemoryType = CU_MEMORYTYPE_HOST;
    now.srcHost = staged->data();
  }
  return Enqueue(state, current, stream,
                 {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                  .record = [&](WorkPtr* work) { return MakeCopyWork(state, current, copy, work); },
                  .run = [now, staged] { return PerformCopy(now); }});
}

CUresult EnqueueSet(const Call& call, CUstream stream, const CUDA_MEMSET_NODE_PARAMS& set) {
  if (set.width == 0 || set.height == 0) return CUDA_SUCCESS;
  WorkPtr made;
  if (const CUresult wrong = MakeSetWork(call.state(), call.context(), set, &made); wrong != CUDA_SUCCESS) return wrong;
  return Enqueue(call.state(), call.context(), stream,
                 {.type = CU_GRAPH_NODE_TYPE_MEMSET,
                  .record =
                      [&](WorkPtr* work) {
                        *work = made;
                        return CUDA_SUCCESS;
                      },
                  .run = [set] { return PerformSet(set); }});
}

// Waits for the work queued on the stream so far.
CUresult WaitFor(Call& call, CUstream stream) {
  const Mark mark = EnqueueMark(call.state(), stream);
  CUcontext const context = stream->context;
  call.Unlock();
  mark.Wait();
  return context->fault;
}

// Copies one row between any two places. Pageable host memory is read and written before the call returns. Which place
// the call's name makes a device's is ignored.
CUresult CopyRow(Call& call, const CUDA_MEMCPY3D& copy, CUdeviceptr to, CUdeviceptr from, CUstream stream,
                 bool synchronous) {
  State& state = call.state();
  std::shared_ptr<std::string> staged;
  if (!synchronous && copy.srcMemoryType == CU_MEMORYTYPE_HOST && IsPageable(state, from)) {
    staged = std::make_shared<std::string>(reinterpret_cast<const char*>(from), copy.WidthInBytes);
  }
  CUstream const found = FindStream(state, call.context(), stream);
  const CUresult result = EnqueueCopy(state, call.context(), stream, copy, staged);
  if (result != CUDA_SUCCESS || found->capture != nullptr) return result;
  const bool pageable = copy.dstMemoryType == CU_MEMORYTYPE_HOST && IsPageable(state, to);
  return synchronous || pageable ? WaitFor(call, found) : CUDA_SUCCESS;
}

CUresult CopyToDevice(Call& call, CUdeviceptr to, const void* from, size_t bytes, CUstream stream, bool synchronous) {
  if (bytes == 0) return CUDA_SUCCESS;
  State& state = call.state();
  if (FindMemory(state, to, bytes) == nullptr || from == nullptr || IsDeviceMemory(state, from)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMCPY3D copy = RowOf(CU_MEMORYTYPE_UNIFIED, to, CU_MEMORYTYPE_HOST, AddressOf(from), bytes);
  return CopyRow(call, copy, to, AddressOf(from), stream, synchronous);
}

CUresult CopyToHost(Call& call, void* to, CUdeviceptr from, size_t bytes, CUstream stream, bool synchronous) {
  if (bytes == 0) return CUDA_SUCCESS;
  State& state = call.state();
  if (FindMemory(state, from, bytes) == nullptr || to == nullptr || IsDeviceMemory(state, to)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMCPY3D copy = RowOf(CU_MEMORYTYPE_HOST, AddressOf(to), CU_MEMORYTYPE_UNIFIED, from, bytes);
  return CopyRow(call, copy, AddressOf(to), from, stream, synchronous);
}

CUresult CopyOnDevice(Call& call, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool synchronous) {
  if (bytes == 0) return CUDA_SUCCESS;
  State& state = call.state();
  if (FindMemory(state, to, bytes) == nullptr || FindMemory(state, from, bytes) == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUDA_MEMCPY3D copy = RowOf(CU_MEMORYTYPE_UNIFIED, to, CU_MEMORYTYPE_UNIFIED, from, bytes);
  return CopyRow(call, copy, to, from, stream, synchronous);
}

// Copies between two unified addresses. Either may be of host memory, also of pageable memory.
CUresult CopyUnified(Call& call, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool synchronous) {
  if (bytes == 0) return CUDA_SUCCESS;
  State& state = call.state();
  for (const CUdeviceptr address : {to, from}) {
    if (address == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!IsPageable(state, address) && FindMemory(state, address, bytes) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  const auto type = [&](CUdeviceptr address) {
    return IsPageable(state, address) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
  };
  return CopyRow(call, RowOf(type(to), to, type(from), from, bytes), to, from, stream, synchronous);
}

CUresult CopyBlock(Call& call, const CUDA_MEMCPY3D& copy, CUstream stream, bool synchronous) {
  WorkPtr made;
  State& state = call.state();
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return CUDA_SUCCESS;
  if (const CUresult wrong = MakeCopyWork(state, call.context(), copy, &made); wrong != CUDA_SUCCESS) return wrong;
  CUstream const found = FindStream(state, call.context(), stream);
  const CUresult result = EnqueueCopy(state, call.context(), stream, copy, nullptr);
  if (result != CUDA_SUCCESS || found->capture != nullptr) return result;
  const auto pageable = [&](CUmemorytype type, const void* host, CUdeviceptr device) {
    return IsPageable(state, type == CU_MEMORYTYPE_HOST ? AddressOf(host) : device);
  };
  // Pageable memory with several rows is not staged, so the call waits for the copy.
  const bool waits = pageable(copy.srcMemoryType, copy.srcHost, copy.srcDevice) ||
                     pageable(copy.dstMemoryType, copy.dstHost, copy.dstDevice);
  return synchronous || waits ? WaitFor(call, found) : CUDA_SUCCESS;
}

CUDA_MEMCPY3D BlockOf(const CUDA_MEMCPY2D& copy) {
  CUDA_MEMCPY3D block = {};
  block.srcXInBytes = copy.srcXInBytes;
  block.srcY = copy.srcY;
  block.srcMemoryType = copy.srcMemoryType;
  block.srcHost = copy.srcHost;
  block.srcDevice = copy.srcDevice;
  block.srcPitch = copy.srcPitch;
  block.dstXInBytes = copy.dstXInBytes;
  block.dstY = copy.dstY;
  block.dstMemoryType = copy.dstMemoryType;
  block.dstHost = copy.dstHost;
  block.dstDevice = copy.dstDevice;
  block.dstPitch = copy.dstPitch;
  block.WidthInBytes = copy.WidthInBytes;
  block.Height = copy.Height;
  block.Depth = 1;
  return block;
}

CUDA_MEMSET_NODE_PARAMS RowsOf(CUdeviceptr to, size_t pitch, unsigned int value, unsigned int element, size_t width,
                               size_t height) {
  return {.dst = to, .pitch = pitch, .value = value, .elementSize = element, .width = width, .height = height};
}

}  // namespace

extern "C" CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  Call call("cuMemcpyHtoDAsync", kContext, std::to_string(bytes));
  return call.refused() ? call.result() : CopyToDevice(call, to, from, bytes, stream, false);
}

extern "C" CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Call call("cuMemcpyDtoHAsync", kContext, std::to_string(bytes));
  return call.refused() ? call.result() : CopyToHost(call, to, from, bytes, stream, false);
}

extern "C" CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Call call("cuMemcpyDtoDAsync", kContext, std::to_string(bytes));
  return call.refused() ? call.result() : CopyOnDevice(call, to, from, bytes, stream, false);
}

extern "C" CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  Call call("cuMemcpyAsync", kContext, std::to_string(bytes));
  return call.refused() ? call.result() : CopyUnified(call, to, from, bytes, stream, false);
}

extern "C" CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                      size_t bytes, CUstream stream) {
  Call call("cuMemcpyPeerAsync", kContext, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (!IsContext(call.state(), to_context) || !IsContext(call.state(), from_context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return CopyOnDevice(call, to, from, bytes, stream, false);
}

extern "C" CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  Call call("cuMemcpyHtoD", kContext | kNotInCapture, std::to_string(bytes));
  return call.refused() ? call.result() : CopyToDevice(call, to, from, bytes, nullptr, true);
}

extern "C" CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  Call call("cuMemcpyDtoH", kContext | kNotInCapture, std::to_string(bytes));
  return call.refused() ? call.result() : CopyToHost(call, to, from, bytes, nullptr, true);
}

// A copy within one device does not block the host (Driver API, API synchronization behavior).
extern "C" CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  Call call("cuMemcpyDtoD", kContext | kNotInCapture, std::to_string(bytes));
  return call.refused() ? call.result() : CopyOnDevice(call, to, from, bytes, nullptr, false);
}

extern "C" CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  Call call("cuMemcpy", kContext | kNotInCapture, std::to_string(bytes));
  return call.refused() ? call.result() : CopyUnified(call, to, from, bytes, nullptr, true);
}

extern "C" CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                 size_t bytes) {
  Call call("cuMemcpyPeer", kContext | kNotInCapture, std::to_string(bytes));
  if (call.refused()) return call.result();
  if (!IsContext(call.state(), to_context) || !IsContext(call.state(), from_context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  return CopyOnDevice(call, to, from, bytes, nullptr, true);
}

extern "C" CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) {
  Call call("cuMemcpy2D", kContext | kNotInCapture);
  return call.refused() ? call.result() : CopyBlock(call, BlockOf(*copy), nullptr, true);
}

extern "C" CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) {
  Call call("cuMemcpy2DUnaligned", kContext | kNotInCapture);
  return call.refused() ? call.result() : CopyBlock(call, BlockOf(*copy), nullptr, true);
}

extern "C" CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
  Call call("cuMemcpy2DAsync", kContext);
  return call.refused() ? call.result() : CopyBlock(call, BlockOf(*copy), stream, false);
}

extern "C" CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) {
  Call call("cuMemcpy3D", kContext | kNotInCapture);
  return call.refused() ? call.result() : CopyBlock(call, *copy, nullptr, true);
}

extern "C" CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
  Call call("cuMemcpy3DAsync", kContext);
  return call.refused() ? call.result() : CopyBlock(call, *copy, stream, false);
}

extern "C" CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  const Call call("cuMemsetD8Async", kContext, std::to_string(bytes));
  return call.refused() ? call.result() : EnqueueSet(call, stream, RowsOf(to, 0, value, 1, bytes, 1));
}

extern "C" CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  const Call call("cuMemsetD16Async", kContext, std::to_string(count));
  return call.refused() ? call.result() : EnqueueSet(call, stream, RowsOf(to, 0, value, 2, count, 1));
}

extern "C" CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  const Call call("cuMemsetD32Async", kContext, std::to_string(count));
  return call.refused() ? call.result() : EnqueueSet(call, stream, RowsOf(to, 0, value, 4, count, 1));
}

extern "C" CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
                                      CUstream stream) {
  const Call call("cuMemsetD2D8Async", kContext);
  return call.refused() ? call.result() : EnqueueSet(call, stream, RowsOf(to, pitch, value, 1, width, height));
}

extern "C" CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                                       CUstream stream) {
  const Call call("cuMemsetD2D32Async", kContext);
  return call.refused() ? call.result() : EnqueueSet(call, stream, RowsOf(to, pitch, value, 4, width, height));
}

extern "C" CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes) {
  const Call call("cuMemsetD8", kContext | kNotInCapture, std::to_string(bytes));
  return call.refused() ? call.result() : EnqueueSet(call, nullptr, RowsOf(to, 0, value, 1, bytes, 1));
}

extern "C" CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  const Call call("cuMemsetD16", kContext | kNotInCapture, std::to_string(count));
  return call.refused() ? call.result() : EnqueueSet(call, nullptr, RowsOf(to, 0, value, 2, count, 1));
}

extern "C" CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  const Call call("cuMemsetD32", kContext | kNotInCapture, std::to_string(count));
  return call.refused() ? call.result() : EnqueueSet(call, nullptr, RowsOf(to, 0, value, 4, count, 1));
}

}  // namespace callout::software_gpu
