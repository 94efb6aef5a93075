// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/stream_work.h"

namespace callout::internal::cuda {

Result<StreamCapture> StreamCapture::Begin(const Device& device, CUstream stream) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CALLOUT_RETURN_IF_ERROR(device.Check(device.driver().StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                                       "cuStreamBeginCapture"));
  return StreamCapture(device, stream);
}

StreamCapture::~StreamCapture() {
  if (active_ && MayCallDriver()) static_cast<void>(End());
}

Result<Graph> StreamCapture::End() {
  active_ = false;
  ContextScope scope(*device_);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CUgraph graph = nullptr;
  CALLOUT_RETURN_IF_ERROR(device_->Check(device_->driver().StreamEndCapture(stream_, &graph), "cuStreamEndCapture"));
  return Graph(*device_, graph);
}

Result<GraphExec> Instantiate(const Device& device, const Graph& graph) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CUgraphExec executable = nullptr;
  CALLOUT_RETURN_IF_ERROR(device.Check(device.driver().GraphInstantiateWithFlags(&executable, graph.get(), 0),
                                       "cuGraphInstantiateWithFlags"));
  return GraphExec(device, executable);
}

Status Launch(const Device& device, const GraphExec& executable, CUstream stream) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  return device.Check(device.driver().GraphLaunch(executable.get(), stream), "cuGraphLaunch");
}

Status Update(const Device& device, const GraphExec& executable, const Graph& graph) {
  ContextScope scope(device);
  CALLOUT_RETURN_IF_ERROR(scope.TakeStatus());
  CUgraphExecUpdateResultInfo info = {};
  return device.Check(device.driver().GraphExecUpdate(executable.get(), graph.get(), &info), "cuGraphExecUpdate");
}

Status CopyToHost(const Device& device, CUstream stream, void* to, CUdeviceptr from, size_t bytes,
                  std::string_view subject) {
  return device.Check(device.driver().MemcpyDtoHAsync(to, from, bytes, stream), "cuMemcpyDtoHAsync", subject);
}

Status CopyToDevice(const Device& device, CUstream stream, CUdeviceptr to, const void* from, size_t bytes,
                    std::string_view subject) {
  return device.Check(device.driver().MemcpyHtoDAsync(to, from, bytes, stream), "cuMemcpyHtoDAsync", subject);
}

Status FillWithZeros(const Device& device, CUstream stream, CUdeviceptr to, size_t bytes, std::string_view subject) {
  return device.Check(device.driver().MemsetD8Async(to, 0, bytes, stream), "cuMemsetD8Async", subject);
}

Status SetNumber(const Device& device, CUstream stream, CUdeviceptr to, uint32_t number) {
  return device.Check(device.driver().MemsetD32Async(to, number, 1, stream), "cuMemsetD32Async");
}

Status Record(const Device& device, const Event& event, CUstream stream) {
  return device.Check(device.driver().EventRecord(event.get(), stream), "cuEventRecord");
}

Result<bool> IsDone(const Device& device, const Event& event) {
  const CUresult result = device.driver().EventQuery(event.get());
  if (result == CUDA_ERROR_NOT_READY) return false;
  CALLOUT_RETURN_IF_ERROR(device.Check(result, "cuEventQuery"));
  return true;
}

Status Order(const Device& device, const Event& event, CUstream before, CUstream after) {
  CALLOUT_RETURN_IF_ERROR(Record(device, event, before));
  return device.Check(device.driver().StreamWaitEvent(after, event.get(), 0), "cuStreamWaitEvent");
}

Result<bool> Publish(const Device& device, CUstream stream, CUdeviceptr at, uint32_t number) {
  const Driver& driver = device.driver();
  if (driver.StreamWriteValue32 == nullptr) return false;
  // The default write comes after a fence.
  const CUresult result = driver.StreamWriteValue32(stream, at, number, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result == CUDA_ERROR_NOT_SUPPORTED) return false;
  CALLOUT_RETURN_IF_ERROR(device.Check(result, "cuStreamWriteValue32"));
  return true;
}

Status CallOnHost(const Device& device, CUstream stream, CUhostFn function, void* user_data) {
  return device.Check(device.driver().LaunchHostFunc(stream, function, user_data), "cuLaunchHostFunc");
}

}  // namespace callout::internal::cuda
