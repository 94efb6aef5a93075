// SPDX-License-Identifier: Apache-2.0
//
// Objects that graphs keep alive for their callers (Programming Guide, CUDA User Objects).
#pragma once

#include <map>
#include <memory>

#include "driver/cuda_types.h"

namespace callout::software_gpu {

/// Calls a user object's function when its last reference is gone: references are held by callers, graphs, executable
/// graphs and their launches. The function runs in a thread of the driver, and must not call CUDA.
class UserObjectEnd {
 public:
  UserObjectEnd(CUhostFn destroy, void* data) : destroy_(destroy), data_(data) {}
  ~UserObjectEnd();
  UserObjectEnd(const UserObjectEnd&) = delete;
  UserObjectEnd& operator=(const UserObjectEnd&) = delete;

 private:
  CUhostFn destroy_;
  void* data_;
};

/// References of a graph. A copy of the graph has the same number of its own.
struct UserReferences {
  std::shared_ptr<const UserObjectEnd> end;
  unsigned int count = 0;
};
using UserObjects = std::map<CUuserObject, UserReferences>;

}  // namespace callout::software_gpu

struct CUuserObject_st {
  std::shared_ptr<const callout::software_gpu::UserObjectEnd> end;
  unsigned int count;  ///< References of callers. With none, callers have no handle any more.
};
