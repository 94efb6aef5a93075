// SPDX-License-Identifier: Apache-2.0
#include "sinks/step_counter.h"

#include <gtest/gtest.h>

#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

class StepCounterTest : public ::testing::Test {
 protected:
  int64_t Next(const std::string& label, Record record = {}) {
    const SiteInfo site{label, {"loss"}};
    record.site = &site;
    return counter_.Next(record);
  }
  int64_t NextWithLeaf(TestBuffer leaf) {
    const SiteInfo site{"a", {"step"}};
    const callout_buffer view = leaf.view();
    Record record = {};
    record.site = &site;
    record.buffers = {&view, 1};
    return counter_.Next(record);
  }

  StepCounter counter_;
};

TEST_F(StepCounterTest, CountsFromZeroForEachNameAndDevice) {
  EXPECT_EQ(Next("a"), 0);
  EXPECT_EQ(Next("a"), 1);
  EXPECT_EQ(Next("b"), 0);
  EXPECT_EQ(Next("a", {.device_ordinal = 1}), 0);
  EXPECT_EQ(Next("a"), 2);
}

TEST_F(StepCounterTest, WhatWasNotSentCountsToo) {
  EXPECT_EQ(Next("a"), 0);
  EXPECT_EQ(Next("a", {.skipped = 9}), 10);
  EXPECT_EQ(Next("a"), 11);
}

TEST_F(StepCounterTest, WhatTheTapWasToldCountsMostAndIsGoneOnFrom) {
  EXPECT_EQ(Next("a", {.step = 100}), 100);
  EXPECT_EQ(Next("a"), 101);
  EXPECT_EQ(Next("a", {.step = 7, .skipped = 3}), 7);
}

TEST_F(StepCounterTest, AnIntegerScalarCalledStepIsTheStep) {
  EXPECT_EQ(NextWithLeaf(TestBuffer::Scalar<int32_t>(41)), 41);
  EXPECT_EQ(NextWithLeaf(TestBuffer::Scalar<uint8_t>(200)), 200);
  EXPECT_EQ(NextWithLeaf(TestBuffer::Scalar<float>(3)), 201) << "a number with a fraction is none";
  EXPECT_EQ(NextWithLeaf(TestBuffer::Of<int32_t>({1}, {5})), 202) << "an array is none";
}

TEST_F(StepCounterTest, ResumesBehindWhatAFileHolds) {
  counter_.Resume("a", 41);
  EXPECT_EQ(Next("a"), 42);
  EXPECT_EQ(Next("b"), 0);
}

}  // namespace
}  // namespace callout::internal
