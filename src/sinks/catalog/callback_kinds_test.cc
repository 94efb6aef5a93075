// SPDX-License-Identifier: Apache-2.0
#include "sinks/catalog/callback_kinds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/callbacks/callback.h"
#include "core/callbacks/registry.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::HasSubstr;

class CallbackKindsTest : public LiveCountTest {
 protected:
  void SetUp() override {
    LiveCountTest::SetUp();
    RegisterKinds();
  }
};

TEST_F(CallbackKindsTest, ProgramsGetPrintsByName) {
  RegisterKinds();
  const auto made = Registry::Get().Find("id_print:1;1000;1000000;;l0");
  ASSERT_THAT(made, IsOk());
  EXPECT_EQ(made.value()->label(), "id_print");
  EXPECT_EQ(made.value()->worker(), Worker::kNative);
  EXPECT_THAT(Registry::Get().Find("id_print:1;x").status(),
              StatusIs(StatusCode::kInvalidArgument, "5 fields separated by ';'"));
}

TEST_F(CallbackKindsTest, ProgramsGetWatchesByName) {
  EXPECT_THAT(Registry::Get().Find("watch:1;ni;stop").status(), IsOk());
  EXPECT_THAT(Registry::Get().Find("watch:1;;stop").status(),
              StatusIs(StatusCode::kInvalidArgument, "a watch must be"));
}

TEST_F(CallbackKindsTest, ProgressBarsOfProgramsAreForgottenWithoutPython) {
  const auto bar = Registry::Get().Find("progress_bar:{}");
  ASSERT_THAT(bar, IsOk());
  EXPECT_EQ(bar.value()->worker(), Worker::kNative);
  EXPECT_THAT(bar.value()->Deliver({}), IsOk());
}

TEST_F(CallbackKindsTest, ProgramsGetTheClockOfProgressBarsByName) {
  const auto clock = Registry::Get().Find("progress_clock:");
  ASSERT_THAT(clock, IsOk());
  TestBuffer state = TestBuffer::Of<uint32_t>({8}, std::vector<uint32_t>(8));
  TestBuffer interval = TestBuffer::Of<uint32_t>({}, {1000});
  TestBuffer next = TestBuffer::Of<uint32_t>({8}, std::vector<uint32_t>(8));
  const callout_buffer args[] = {state.view(), interval.view()};
  const callout_buffer results[] = {next.view()};
  callout_call call = {};
  call.num_args = 2;
  call.num_results = 1;
  call.args = args;
  call.results = results;
  ASSERT_THAT(clock.value()->Call(call), IsOk());
  EXPECT_EQ(static_cast<const uint32_t*>(results[0].data)[7], 1U);
}

TEST_F(CallbackKindsTest, SinksAreMadeOfTheirTexts) {
  const std::string path = ::testing::TempDir() + "/kinds_test." + std::to_string(getpid());
  for (const std::string& text :
       {std::string("null"), std::string("null:"), std::string("print"), std::string("print:{name}: a=b, c:d"),
        std::string("print,update,color=false,fd=2:x"), "jsonl:" + path, "jsonl,fields=false,append:" + path,
        "csv,columns=step,columns=a%2Cb,rotate_bytes=100,keep=2:" + path, "tensorboard,kinds=*=text:" + path + ".d"}) {
    const auto made = MakeSink("loss", text);
    ASSERT_THAT(made, IsOk()) << text;
    EXPECT_EQ(made.value()->label(), "loss");
  }
  std::filesystem::remove(path);
  std::filesystem::remove_all(path + ".d");
}

TEST_F(CallbackKindsTest, OptionsOfATextReachTheSink) {
  const std::string path = ::testing::TempDir() + "/kinds_options." + std::to_string(getpid());
  std::ofstream(path) << "step,a%2Cb\n";
  EXPECT_THAT(MakeSink("loss", "csv,append,columns=step,columns=a%252Cb:" + path), IsOk());
  EXPECT_THAT(MakeSink("loss", "csv,append,columns=step,columns=a%2Cb:" + path),
              StatusIs(StatusCode::kInvalidArgument, "expected step,\"a,b\""));
  std::filesystem::remove(path);
}

TEST_F(CallbackKindsTest, MalformedTextsSayWhatIsWrong) {
  for (const auto& [text, expected] :
       {std::pair("csv:", "the sink 'csv' needs its 'path'"),
        {"jsonl", "needs its 'path'"},
        {"csv,appends:x", "has no option 'appends'; it has path, append, columns, fsync, rotate_bytes, keep"},
        {"print,update=yes:", "expects true or false as 'update', got 'yes'"},
        {"print,color=red", "expects auto, true or false as 'color', got 'red'"},
        {"print,fd=-1", "expects an integer from 0 to 2147483647 as 'fd'"},
        {"print,format=a:b", "takes its 'format'"},
        {"print,format=%4:", "two hexadecimal digits"},
        {"print,,update", "has no option ''"},
        {"null:x", "takes nothing behind the ':', got 'null:x'"},
        {"csv,fsync=-1:x", "0 or more seconds, got '-1'"},
        {"csv,keep=2:x", "needs 'rotate_bytes'"},
        {"tensorboard,kinds=a:/x", "PATTERN=scalar"},
        {"tensorboard,kinds=a=bars:/x", "got 'a=bars'"}}) {
    EXPECT_THAT(MakeSink("loss", text).status(), StatusIs(StatusCode::kInvalidArgument, expected)) << text;
  }
}

TEST_F(CallbackKindsTest, OnlySinksForHostsAreMadeOfText) {
  EXPECT_NE(FindSinkKind("histogram"), nullptr);
  for (const char* text : {"histogram", "statistics", "tape:x", "", ":", "library:x.so:f", "prints"}) {
    EXPECT_EQ(SinkKindOf(text), nullptr) << text;
    EXPECT_THAT(MakeSink("loss", text).status(), StatusIs(StatusCode::kNotFound, "there is no sink")) << text;
  }
}

TEST_F(CallbackKindsTest, ProgramsMakeNoSinks) {
  for (const char* name : {"print:x", "print,update:x", "null:", "csv:/tmp/x", "library:libm.so.6:sin"}) {
    EXPECT_THAT(Registry::Get().Find(name).status(), StatusIs(StatusCode::kNotFound, "no callback is bound")) << name;
  }
}

TEST_F(CallbackKindsTest, EdgesOfHistogramsAscend) {
  const auto made = [](SinkOptions::Given edges) {
    return MakeSink("h", *FindSinkKind("histogram"), std::move(edges)).status();
  };
  EXPECT_THAT(made({{"quantiles", "false"}, {"edges", "0"}, {"edges", "0.5"}, {"edges", "0.5"}}), IsOk());
  for (const char* second : {"-1", "inf", "nan"}) {
    EXPECT_THAT(made({{"edges", "0"}, {"edges", second}}), StatusIs(StatusCode::kInvalidArgument, "ascending numbers"));
  }
  EXPECT_THAT(made({{"edges", "0"}}), StatusIs(StatusCode::kInvalidArgument, "two or more"));
}

// Compares the rows of docs/sinks.md with the kinds' options, word for word.
TEST_F(CallbackKindsTest, DocumentationHasEveryOption) {
  std::ifstream file(CALLOUT_DOCS "/sinks.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const SinkKind* const kind : SinkKinds()) {
    if (!kind->is_for_hosts) continue;
    for (const SinkOption& option : kind->options) {
      const std::string row = "| `" + std::string(kind->name) + "` | `" + option.name + "` | " + option.by_default +
                              " | " + option.meaning + " |\n";
      EXPECT_THAT(page, HasSubstr(row));
    }
  }
  for (const std::string& form : SinkForms()) EXPECT_THAT(page, HasSubstr("`" + form + "`"));
}

TEST_F(CallbackKindsTest, NamesOfOtherKindsNeedABinding) {
  EXPECT_STREQ(ProgramKindOf("id_print:1;1000;1000000;;l0"), "id_print");
  EXPECT_STREQ(ProgramKindOf("watch:"), "watch");
  EXPECT_STREQ(ProgramKindOf("progress_bar:{}"), "progress bar");
  EXPECT_STREQ(ProgramKindOf("progress_clock:"), "clock of progress bars");
  for (const char* name : {"watch", "loss", "", ":", "id_prints:x", "py:f"}) EXPECT_EQ(ProgramKindOf(name), nullptr);
}

}  // namespace
}  // namespace callout::internal
