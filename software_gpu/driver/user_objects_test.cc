// SPDX-License-Identifier: Apache-2.0
//
// Tests user objects (Programming Guide, CUDA User Objects; Driver API, cuUserObjectCreate and
// cuGraphRetainUserObject).
#include <future>

#include "driver/graph_fixture.h"

namespace callout::software_gpu {
namespace {

class UserObjectTest : public GraphFixture {
 protected:
  CUuserObject Create(unsigned int references = 1) {
    CUuserObject object = nullptr;
    EXPECT_EQ(cuUserObjectCreate(
                  &object, &ended_, [](void* ended) { static_cast<std::promise<void>*>(ended)->set_value(); },
                  references, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
              CUDA_SUCCESS);
    return object;
  }
  bool Ended() { return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

  std::promise<void> ended_;
  std::future<void> future_ = ended_.get_future();
};

TEST_F(UserObjectTest, TheFunctionRunsWhenAllReferencesAreReleased) {
  CUuserObject object = Create(2);
  ASSERT_EQ(cuUserObjectRelease(object, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuUserObjectRelease(object, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_FALSE(Ended());
  ASSERT_EQ(cuUserObjectRelease(object, 1), CUDA_SUCCESS);
  future_.wait();
  EXPECT_EQ(cuUserObjectRetain(object, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(UserObjectTest, LaunchesInFlightKeepWhatTheirGraphHad) {
  CUuserObject object = Create();
  CUgraph graph = Graph();
  Append(graph, 1);
  ASSERT_EQ(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE), CUDA_SUCCESS);
  EXPECT_EQ(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = Instantiate(graph);
  software_gpu_control()->hold();
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_FALSE(Ended());
  software_gpu_control()->release();
  future_.wait();
}

TEST_F(UserObjectTest, GraphsReleaseWhatTheyHave) {
  CUuserObject object = Create();
  CUgraph graph = Graph();
  EXPECT_EQ(cuGraphReleaseUserObject(graph, object, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuGraphRetainUserObject(graph, object, 2, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuUserObjectRelease(object, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphReleaseUserObject(graph, object, 1), CUDA_SUCCESS);
  EXPECT_FALSE(Ended());
  ASSERT_EQ(cuGraphReleaseUserObject(graph, object, 1), CUDA_SUCCESS);
  future_.wait();
}

}  // namespace
}  // namespace callout::software_gpu
