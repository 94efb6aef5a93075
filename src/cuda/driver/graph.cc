// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/graph.h"

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

}  // namespace callout::internal::cuda
