// SPDX-License-Identifier: Apache-2.0
#include "host/executables/compile_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

TEST(CompileRequestTest, IsReadAsItWasWritten) {
  CompileRequest request;
  request.plugin = "p.so";
  request.client.concurrent_runs = 0;
  request.client.values = {
      {"text", std::string("a")},        {"integer", int64_t{-7}}, {"list", std::vector<int64_t>{1, -2}},
      {"empty", std::vector<int64_t>{}}, {"float", 0.5F},          {"truth", true}};
  request.options.num_replicas = 2;
  request.options.num_partitions = 3;
  request.options.device_assignment = {5, 4, 3, 2, 1, 0};
  request.options.xla_options = {{"xla_cpu_enable_fast_math", true}};
  request.num_devices = 3;
  request.code = std::string("ML\xefR\0code", 9);
  request.handlers = {"one", "two"};
  const auto read = CompileRequest::Read(request.Write());
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->plugin, "p.so");
  EXPECT_EQ(read->client.concurrent_runs, 0);
  EXPECT_EQ(read->client.values, request.client.values);
  EXPECT_EQ(read->options.num_replicas, 2);
  EXPECT_EQ(read->options.num_partitions, 3);
  EXPECT_EQ(read->options.device_assignment, request.options.device_assignment);
  EXPECT_EQ(read->options.xla_options, request.options.xla_options);
  EXPECT_EQ(read->num_devices, 3);
  EXPECT_EQ(read->code, request.code);
  EXPECT_THAT(read->handlers, ElementsAre("one", "two"));
}

TEST(CompileRequestTest, AnswersAreBytesOrErrors) {
  EXPECT_THAT(ReadCompileAnswer(WriteCompileAnswer(std::string("bytes"))), IsOkAndHolds("bytes"));
  EXPECT_THAT(ReadCompileAnswer(WriteCompileAnswer(NotFound("no f"))), StatusIs(StatusCode::kNotFound, "no f"));
}

TEST(CompileRequestTest, AnAnswerIsWholeAtItsLastByte) {
  const std::string answer = WriteCompileAnswer(std::string("bytes"));
  for (size_t size = 0; size < answer.size(); ++size) {
    EXPECT_EQ(FindCompileAnswer(answer.substr(0, size)), AnswerState::kPartial) << size;
  }
  EXPECT_EQ(FindCompileAnswer(answer), AnswerState::kWhole);
  EXPECT_EQ(FindCompileAnswer(answer + "more"), AnswerState::kOther);
  EXPECT_EQ(FindCompileAnswer("a warning"), AnswerState::kOther);
}

TEST(CompileRequestTest, OtherBytesAreRefused) {
  EXPECT_THAT(CompileRequest::Read("\xff\xff"), StatusIs(StatusCode::kInvalidArgument, ::testing::_));
  EXPECT_THAT(CompileRequest::Read(""), StatusIs(StatusCode::kInvalidArgument, ::testing::_));
  EXPECT_THAT(ReadCompileAnswer(""), StatusIs(StatusCode::kInvalidArgument, ::testing::_));
  EXPECT_THAT(ReadCompileAnswer("\xff\xff"), StatusIs(StatusCode::kInvalidArgument, ::testing::_));
}

}  // namespace
}  // namespace callout::internal
