// SPDX-License-Identifier: Apache-2.0
#include "core/handles/handle_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "core/handles/stop_flag.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

class HandleTableTest : public LiveCountTest {
 protected:
  Handle Add() { return *table_->Add(std::make_shared<StopFlag>()); }
  /// Returns the object of a handle, or the reason why there is none.
  Result<HostObject*> Find(const Handle& handle, HandleKind kind = HandleKind::kStopFlag) {
    const HandleTable::Found found = table_->Find(handle, kind);
    if (!found) return table_->WhyNotFound(handle, kind);
    return &*found;
  }
  void TearDown() override {
    table_.reset();
    LiveCountTest::TearDown();
  }

  std::unique_ptr<HandleTable> table_ = std::make_unique<HandleTable>();
};

TEST_F(HandleTableTest, FindsTheObjectOfAHandle) {
  const auto flag = std::make_shared<StopFlag>();
  const Handle handle = *table_->Add(flag);
  const Handle other = Add();
  EXPECT_NE(handle, other);
  EXPECT_EQ(*Find(handle), flag.get());
}

TEST_F(HandleTableTest, RetiredObjectIsFoundUntilItIsFreed) {
  const Handle first = Add(), second = Add();
  table_->Retire(first);
  EXPECT_EQ(table_->retired().kept, 1U);
  EXPECT_THAT(Find(first), IsOk());
  table_->Retire(second);
  table_->Free(1);
  EXPECT_THAT(Find(first), StatusIs(StatusCode::kFailedPrecondition,
                                    "callout: StopFlag: the object of this handle is gone, because nothing in Python "
                                    "refers to it any more: keep the callout.StopFlag that was made for as long as "
                                    "programs use it"));
  EXPECT_THAT(Find(second), IsOk());
  table_->Free(1);
  EXPECT_THAT(Find(second), IsOk()) << "one that was freed before counts";
  table_->Free(100);
  EXPECT_THAT(Find(second), StatusIs(StatusCode::kFailedPrecondition, "gone"));
  EXPECT_EQ(table_->retired().ever, 2U);
  EXPECT_EQ(table_->retired().kept, 0U);
}

TEST_F(HandleTableTest, SlotIsUsedAgainAndTheOldHandleIsStale) {
  const Handle old = Add();
  table_->Retire(old);
  table_->Free(1);
  const Handle handle = Add();
  EXPECT_EQ(handle.index, old.index);
  EXPECT_THAT(Find(old), StatusIs(StatusCode::kFailedPrecondition, "gone"));
  EXPECT_THAT(Find(handle), IsOk());
}

TEST_F(HandleTableTest, ForgedHandleIsRefused) {
  const Handle handle = Add();
  Handle forged = handle;
  forged.generation += 1;
  EXPECT_THAT(Find(forged),
              StatusIs(StatusCode::kFailedPrecondition,
                       "callout: StopFlag: no object has this handle (index 0, generation 2): the numbers "
                       "of the handle were changed"));
  forged = handle;
  forged.index = 0xffffffff;
  EXPECT_THAT(Find(forged), StatusIs(StatusCode::kFailedPrecondition, "no object has this handle (index 4294967295"));
  forged = handle;
  forged.generation = 0;
  EXPECT_THAT(Find(forged), StatusIs(StatusCode::kFailedPrecondition, "no object has this handle"));
}

TEST_F(HandleTableTest, HandleOfAnotherProcessIsRefused) {
  HandleTable other;
  const Handle foreign = *other.Add(std::make_shared<StopFlag>());
  for (const Handle& handle : {foreign, Handle()}) {
    EXPECT_THAT(
        Find(handle),
        StatusIs(StatusCode::kFailedPrecondition,
                 "callout: StopFlag: its leaf is no handle of this process: it comes from another process, as in "
                 "a checkpoint, or is zeros or other numbers. Make a new callout.StopFlag, and put it into the "
                 "pytree in place of this one"));
  }
}

TEST_F(HandleTableTest, HandleOfAnotherKindIsRefused) {
  const Handle handle = Add();
  EXPECT_THAT(Find(handle, HandleKind::kHostValue),
              StatusIs(StatusCode::kFailedPrecondition,
                       "callout: HostValue: its leaf is the handle of an object of another kind"));
}

TEST_F(HandleTableTest, ManyObjectsHaveHandlesOfTheirOwn) {
  std::vector<Handle> handles;
  for (int i = 0; i < 1000; ++i) handles.push_back(Add());
  static_cast<StopFlag&>(**Find(handles[777])).Set();
  for (size_t i = 0; i < handles.size(); ++i) {
    EXPECT_EQ(static_cast<StopFlag&>(**Find(handles[i])).IsSet(), i == 777);
  }
}

TEST_F(HandleTableTest, ReadersNeverSeeAnObjectThatIsFreed) {
  std::atomic<bool> done{false};
  std::atomic<uint32_t> generation{0};
  const uint64_t process = Add().process;
  table_->Retire({.index = 0, .generation = 1, .process = process});
  table_->Free(1);
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!done.load()) {
        const HandleTable::Found found =
            table_->Find({.index = 0, .generation = generation.load(), .process = process}, HandleKind::kStopFlag);
        if (!found) continue;
        EXPECT_FALSE(static_cast<const StopFlag&>(*found).IsSet());
      }
    });
  }
  for (uint64_t i = 2; i <= 2000; ++i) {
    const Handle handle = Add();
    generation.store(handle.generation);
    table_->Retire(handle);
    table_->Free(i);
  }
  done.store(true);
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace callout::internal
