// SPDX-License-Identifier: Apache-2.0
//
// Makes starting threads fail, for tests.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace callout::internal {

/// While the object lives, no thread can be started: a new one has no room for its stack, as in a process at its
/// limits.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t now;
    EXPECT_EQ(pthread_getattr_default_np(&now), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&now, size_t{1} << 47), 0);  // Exceeds the address space.
    EXPECT_EQ(pthread_setattr_default_np(&now), 0);
    EXPECT_EQ(pthread_attr_destroy(&now), 0);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    EXPECT_EQ(pthread_attr_destroy(&before_), 0);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace callout::internal
