// SPDX-License-Identifier: Apache-2.0
#include "core/base/hazard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace callout::internal {
namespace {

TEST(HazardTest, ObjectIsReadForAsLongAsAHazardIsOnIt) {
  int object = 1;
  const std::atomic<int*> source{&object};
  EXPECT_FALSE(Hazard::IsRead(&object));
  {
    int* found = nullptr;
    const Hazard hazard = Hazard::Of(source, found);
    EXPECT_EQ(found, &object);
    EXPECT_TRUE(Hazard::IsRead(&object));
  }
  EXPECT_FALSE(Hazard::IsRead(&object));
}

TEST(HazardTest, MovedHazardStaysOnItsObject) {
  int object = 1;
  auto first = std::make_unique<Hazard>(&object);
  const Hazard second = std::move(*first);
  first.reset();
  EXPECT_TRUE(Hazard::IsRead(&object));
}

TEST(HazardTest, ThreadReadsSeveralObjects) {
  int one = 1, two = 2;
  auto first = std::make_unique<Hazard>(&one);
  const Hazard second(&two);
  first.reset();
  EXPECT_FALSE(Hazard::IsRead(&one));
  EXPECT_TRUE(Hazard::IsRead(&two));
}

TEST(HazardTest, HazardsOfThreadsThatEndedAreUsedAgain) {
  int object = 1;
  for (int i = 0; i < 100; ++i) std::thread([&] { const Hazard hazard(&object); }).join();
  EXPECT_FALSE(Hazard::IsRead(&object));
}

TEST(HazardTest, ReadersNeverSeeADestroyedObject) {
  struct Object {
    ~Object() { value = 0; }
    int value = 1;
  };
  std::atomic<Object*> source{new Object};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!done.load()) {
        Object* object = nullptr;
        const Hazard hazard = Hazard::Of(source, object);
        EXPECT_EQ(object->value, 1);
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    const std::unique_ptr<Object> old(source.exchange(new Object, std::memory_order_seq_cst));
    Hazard::WaitForReaders(old.get());
  }
  done.store(true);
  for (std::thread& reader : readers) reader.join();
  delete source.load();
}

}  // namespace
}  // namespace callout::internal
