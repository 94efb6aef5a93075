// SPDX-License-Identifier: Apache-2.0
#include "core/base/caught.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

template <typename Exception>
Status Caught(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return CaughtStatus();
  }
}

TEST(CaughtTest, ExceptionsSayWhatTheyAre) {
  EXPECT_THAT(Caught(std::runtime_error("mine")), StatusIs(StatusCode::kInternal, "mine"));
  EXPECT_THAT(Caught(1), StatusIs(StatusCode::kInternal, "it threw something that is not a std::exception"));
}

TEST(CaughtTest, NoMemoryIsAResourceThatIsExhausted) {
  EXPECT_THAT(Caught(std::bad_alloc()), StatusIs(StatusCode::kResourceExhausted, "out of memory"));
  EXPECT_THAT(Caught(std::bad_array_new_length()), StatusIs(StatusCode::kResourceExhausted, "out of memory"));
}

}  // namespace
}  // namespace callout::internal
