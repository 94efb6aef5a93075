// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/native_function.h"

#include <gtest/gtest.h>

#include <cstring>

#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

// Stands for the object of another language that a closure's context points to.
struct Counter {
  int calls = 0;
  int destroyed = 0;
  int32_t returns = 0;
  const char* error = nullptr;
};

int32_t CountCall(void* context, const callout_call* call) {
  auto* counter = static_cast<Counter*>(context);
  ++counter->calls;
  if (counter->error != nullptr) {
    call->set_error(call->error_context, 15, counter->error, std::strlen(counter->error));
  }
  return counter->returns;
}

void CountDestroy(void* context) { ++static_cast<Counter*>(context)->destroyed; }

class ClosureTest : public LiveCountTest {
 protected:
  callout_closure closure() { return {sizeof(callout_closure), &CountCall, &counter_, &CountDestroy}; }
  Status CallOnce() {
    auto callback = MakeClosure("c", closure());
    EXPECT_THAT(callback, IsOk());
    callout_call call = {};
    call.struct_size = sizeof(call);
    return callback.value()->Call(call);
  }

  Counter counter_;
};

TEST_F(ClosureTest, IsCalledWithItsContextAndDestroyedOnce) {
  {
    auto callback = MakeClosure("c", closure());
    ASSERT_THAT(callback, IsOk());
    const std::shared_ptr<Callback> other = callback.value();
    EXPECT_THAT(other->Call({}), IsOk());
    EXPECT_THAT(callback.value()->Call({}), IsOk());
    EXPECT_EQ(counter_.destroyed, 0);
  }
  EXPECT_EQ(counter_.calls, 2);
  EXPECT_EQ(counter_.destroyed, 1);
}

TEST_F(ClosureTest, ErrorHasItsCodeAndText) {
  counter_.returns = 1;
  counter_.error = "the disk is gone";
  EXPECT_THAT(CallOnce(), StatusIs(StatusCode::kDataLoss, "the disk is gone"));
}

TEST_F(ClosureTest, ErrorWithoutTextTellsItsNumber) {
  counter_.returns = 42;
  EXPECT_THAT(CallOnce(), StatusIs(StatusCode::kInternal, "returned error code 42"));
}

TEST_F(ClosureTest, TapIsACallWithoutResults) {
  auto callback = MakeClosure("c", closure());
  ASSERT_THAT(callback, IsOk());
  EXPECT_EQ(callback.value()->worker(), Worker::kNative);
  EXPECT_THAT(callback.value()->Deliver({}), IsOk());
  EXPECT_EQ(counter_.calls, 1);
}

TEST_F(ClosureTest, NothingIsTakenOfWhatIsNoClosure) {
  callout_closure wrong = closure();
  wrong.struct_size = 8;
  EXPECT_THAT(MakeClosure("c", wrong),
              StatusIs(StatusCode::kInvalidArgument, "the closure for 'c' has struct_size 8; expected at least 32"));
  wrong = closure();
  wrong.call = nullptr;
  EXPECT_THAT(MakeClosure("c", wrong), StatusIs(StatusCode::kInvalidArgument, "the closure for 'c' has no function"));
  EXPECT_EQ(counter_.destroyed, 0);
}

TEST_F(ClosureTest, OneThatWasTakenIsEmpty) {
  callout_closure first = closure();
  const callout_closure taken = callout_closure_take(&first);
  EXPECT_THAT(MakeClosure("c", first), StatusIs(StatusCode::kInvalidArgument, "(0: it was taken)"));
  EXPECT_THAT(MakeClosure("c", taken), IsOk());
  EXPECT_EQ(counter_.destroyed, 1);
}

TEST_F(ClosureTest, WithoutDestroyNothingIsDestroyed) {
  callout_closure plain = closure();
  plain.destroy = nullptr;
  EXPECT_THAT(MakeClosure("c", plain), IsOk());
  EXPECT_EQ(counter_.destroyed, 0);
}

}  // namespace
}  // namespace callout::internal
