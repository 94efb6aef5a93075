// SPDX-License-Identifier: Apache-2.0
//
// Tests the timeline that a host records of its own program.
#include "callout/pjrt/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "callout/pjrt/executable.h"
#include "core/encoding/json.h"
#include "testing/host_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::StatusIs;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;

// Returns the names of the timeline's spans, each as often as it occurs.
std::vector<std::string> SpansOf(const std::string& trace) {
  const auto json = internal::ParseJson(trace);
  EXPECT_TRUE(json.has_value()) << trace;
  std::vector<std::string> names;
  if (!json) return names;
  for (const internal::Json& event : (*json)["traceEvents"].items) {
    if (event["ph"].text == "X") names.push_back(event["name"].text);
  }
  return names;
}

Status RunTapLoop() {
  CALLOUT_ASSIGN_OR_RETURN(const auto plugin, Plugin::Load(CALLOUT_TEST_PLUGIN));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, Client::Create(plugin));
  const Compiler compiler(client);
  const FunctionCallback sees("TraceTest.sees", [](const Call&) { return OkStatus(); });
  CALLOUT_ASSIGN_OR_RETURN(const LoadedHostCallback callback, compiler.MakeLoadedHostCallback(sees));
  CALLOUT_ASSIGN_OR_RETURN(const auto executable, compiler.Compile({testdata::TapLoop("TraceTest.sees", 3)},
                                                                   {.loaded_host_callbacks = {callback}}));
  const std::vector<int64_t> dims = {4};
  const std::vector<float> ones(4, 1.0F);
  CALLOUT_ASSIGN_OR_RETURN(const Buffer x, Buffer::FromHost(client, client->devices()[0], dims, ones));
  CALLOUT_RETURN_IF_ERROR(executable.Run({&x}).status());
  return BarrierWait();
}

TEST(TraceTest, HasTheHostsPhasesAndItsCallbacks) {
  ASSERT_THAT(StartTrace(), IsOk());
  {
    const TracePhase outer("TraceTest.outer");
    const TracePhase inner("TraceTest.inner");
    ASSERT_THAT(RunTapLoop(), IsOk());
  }
  const auto trace = StopTrace();
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  const std::vector<std::string> spans = SpansOf(trace.value());
  EXPECT_THAT(spans, Contains("TraceTest.outer").Times(1));
  EXPECT_THAT(spans, Contains("TraceTest.inner").Times(1));
  EXPECT_THAT(spans, Contains("TraceTest.sees").Times(6)) << "three taps and three deliveries";
}

TEST(TraceTest, WhatBeganBeforeOrIsStillOpenIsNotInIt) {
  const TracePhase before("TraceTest.before");
  ASSERT_THAT(StartTrace(), IsOk());
  const TracePhase open("TraceTest.open");
  const auto trace = StopTrace();
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_THAT(SpansOf(trace.value()), IsEmpty());
}

TEST(TraceTest, KeepsTheFirstEventsThatThereIsRoomFor) {
  ASSERT_THAT(StartTrace(/*max_events=*/1), IsOk());
  {
    const TracePhase first("TraceTest.first");
  }
  {
    const TracePhase second("TraceTest.second");
  }
  const auto trace = StopTrace();
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  EXPECT_THAT(SpansOf(trace.value()), Contains("TraceTest.first"));
  EXPECT_THAT(SpansOf(trace.value()), Not(Contains("TraceTest.second")));
}

TEST(TraceTest, OneAtATime) {
  EXPECT_THAT(StopTrace().status(), StatusIs(StatusCode::kFailedPrecondition, "no profile is being recorded"));
  ASSERT_THAT(StartTrace(), IsOk());
  EXPECT_THAT(StartTrace(), StatusIs(StatusCode::kFailedPrecondition, "one at a time in a process"));
  EXPECT_THAT(StopTrace().status(), IsOk());
}

}  // namespace
}  // namespace callout::pjrt
