// SPDX-License-Identifier: Apache-2.0
#include "driver/user_objects.h"

#include <climits>

#include "driver/graph_run.h"
#include "driver/queue.h"
#include "driver/state.h"

namespace callout::software_gpu {
namespace {

// The queue that runs the users' functions, which must not run under the mutex, nor in a stream's thread.
Queue& EndsQueue() {
  static auto* const queue = new Queue;
  return *queue;
}

bool IsCount(unsigned int count) { return count != 0 && count <= INT_MAX; }

// Removes references of the caller. Without any, the object lives as long as graphs have references.
CUresult Drop(State& state, CUuserObject object, unsigned int count) {
  if (object->count < count) return CUDA_ERROR_INVALID_VALUE;
  object->count -= count;
  if (object->count == 0) {
    state.user_objects.erase(object);
    delete object;
  }
  return CUDA_SUCCESS;
}

}  // namespace

UserObjectEnd::~UserObjectEnd() {
  const CUDA_HOST_NODE_PARAMS call{destroy_, data_};
  EndsQueue().Push([call] { PerformHost(call); });
}

extern "C" CUresult cuUserObjectCreate(CUuserObject* object, void* data, CUhostFn destroy, unsigned int references,
                                       unsigned int flags) {
  const Call call("cuUserObjectCreate", kInitialized);
  if (call.refused()) return call.result();
  // The caller must pass CU_USER_OBJECT_NO_DESTRUCTOR_SYNC: there is no way to wait until the function has run.
  const bool known = flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
  if (object == nullptr || destroy == nullptr || !known || !IsCount(references)) return CUDA_ERROR_INVALID_VALUE;
  *object = new CUuserObject_st{std::make_shared<const UserObjectEnd>(destroy, data), references};
  call.state().user_objects.insert(*object);
  return CUDA_SUCCESS;
}

extern "C" CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
  const Call call("cuUserObjectRetain", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().user_objects.contains(object) || !IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  object->count += count;
  return CUDA_SUCCESS;
}

extern "C" CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
  const Call call("cuUserObjectRelease", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().user_objects.contains(object) || !IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  return Drop(call.state(), object, count);
}

extern "C" CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                            unsigned int flags) {
  const Call call("cuGraphRetainUserObject", kInitialized);
  if (call.refused()) return call.result();
  State& state = call.state();
  if (!state.graphs.contains(graph) || !state.user_objects.contains(object) || !IsCount(count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((flags & ~static_cast<unsigned int>(CU_GRAPH_USER_OBJECT_MOVE)) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_GRAPH_USER_OBJECT_MOVE && object->count < count) return CUDA_ERROR_INVALID_VALUE;
  UserReferences& references = graph->objects[object];
  references.end = object->end;
  references.count += count;
  return flags == CU_GRAPH_USER_OBJECT_MOVE ? Drop(state, object, count) : CUDA_SUCCESS;
}

extern "C" CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  const Call call("cuGraphReleaseUserObject", kInitialized);
  if (call.refused()) return call.result();
  if (!call.state().graphs.contains(graph) || !IsCount(count)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = graph->objects.find(object);
  if (found == graph->objects.end() || found->second.count < count) return CUDA_ERROR_INVALID_VALUE;
  found->second.count -= count;
  if (found->second.count == 0) graph->objects.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
