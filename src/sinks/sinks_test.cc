// SPDX-License-Identifier: Apache-2.0
#include "sinks/sinks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/ticks.h"
#include "testing/json.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class SinksTest : public LiveCountTest {
 protected:
  void SetUp() override {
    LiveCountTest::SetUp();
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ =
        std::filesystem::path(::testing::TempDir()) / ("callout_sinks_test." + test + "." + std::to_string(getpid()));
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    LiveCountTest::TearDown();
  }

  static Status Deliver(Callback& sink, const SiteInfo& site, std::vector<TestBuffer> buffers) {
    std::vector<callout_buffer> views;
    for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
    std::vector<void*> blocks(views.size());
    const Record record = {.site = &site,
                           .buffers = views,
                           .blocks = blocks.data(),
                           .device_ordinal = 2,
                           .run_id = 5,
                           .sequence = 9,
                           .ticks = Ticks()};
    return sink.Deliver(record);
  }

  std::string Contents() const {
    std::ifstream file(path_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::vector<Json> ReadJsonLines() const {
    std::vector<Json> lines;
    std::istringstream text(Contents());
    for (std::string line; std::getline(text, line);) {
      const auto json = ParseJson(line);
      EXPECT_TRUE(json.has_value()) << line;
      if (json) lines.push_back(*json);
    }
    return lines;
  }
  std::shared_ptr<Callback> JsonLines(bool append = false, bool fields = true) {
    auto sink = MakeJsonLinesSink("json", path_, append, fields);
    EXPECT_THAT(sink, IsOk());
    return std::move(sink).value();
  }

  std::filesystem::path path_;
};

const SiteInfo kSingle = {"loss", {""}};

TEST_F(SinksTest, JsonLineHasAllFields) {
  const auto sink = JsonLines();
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(0.5F)}), IsOk());
  EXPECT_EQ(Contents(), "") << "written at the end of the batch";
  EXPECT_THAT(sink->Flush(), IsOk());
  const auto lines = ReadJsonLines();
  ASSERT_EQ(lines.size(), 1U);
  const Json& line = lines[0];
  EXPECT_EQ(line.members.size(), 6U);
  EXPECT_EQ(line["name"].text, "loss");
  EXPECT_EQ(line["device"].number, 2);
  EXPECT_EQ(line["run"].number, 5);
  EXPECT_EQ(line["seq"].number, 9);
  EXPECT_EQ(line["value"].number, 0.5);
  EXPECT_GT(line["time"].number, 1.6e9);  // seconds since 1970
}

TEST_F(SinksTest, JsonLineWithoutFieldsHasNameAndValueOnly) {
  const auto sink = JsonLines(false, /*fields=*/false);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Contents(), "{\"name\": \"loss\", \"value\": 1}\n");
}

TEST_F(SinksTest, JsonLineOfSeveralLeavesNamesThem) {
  const auto sink = JsonLines(false, false);
  const SiteInfo site = {"step \"1\"\n", {"loss", "grads['w']"}};
  EXPECT_THAT(Deliver(*sink, site, {TestBuffer::Scalar(std::nan("")), TestBuffer::Of<int32_t>({2, 2}, {1, 2, 3, 4})}),
              IsOk());
  EXPECT_THAT(sink->Flush(), IsOk());
  const auto lines = ReadJsonLines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["name"].text, "step \"1\"\n");
  EXPECT_EQ(lines[0]["loss"].text, "NaN");
  EXPECT_EQ(lines[0]["grads['w']"][1][0].number, 3);
}

TEST_F(SinksTest, EveryDTypeGivesValidJson) {
  const auto sink = JsonLines(false, false);
  int types = 0;
  for (uint32_t number = 1; number < kDTypeLimit; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (BitWidth(dtype) == 0) continue;
    ++types;
    TestBuffer buffer = TestBuffer::Zeros(dtype, {3});
    for (size_t i = 0; i < buffer.bytes().size(); ++i) buffer.bytes()[i] = static_cast<uint8_t>(0x71 + 13 * i);
    EXPECT_THAT(Deliver(*sink, {std::string(ShortName(dtype)), {""}}, {buffer}), IsOk());
  }
  EXPECT_THAT(sink->Flush(), IsOk());
  const auto lines = ReadJsonLines();
  ASSERT_EQ(lines.size(), static_cast<size_t>(types));
  for (const Json& line : lines) EXPECT_EQ(line["value"].items.size(), 3U) << line["name"].text;
}

TEST_F(SinksTest, JsonLinesAreAppendedOrReplaced) {
  const auto write = [&](bool append, int32_t value) {
    const auto sink = JsonLines(append, false);
    EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(value)}), IsOk());
    // Destruction writes what is left.
  };
  const auto values = [&] {
    std::vector<double> all;
    for (const Json& line : ReadJsonLines()) all.push_back(line["value"].number);
    return all;
  };
  write(false, 1);
  write(true, 2);
  EXPECT_THAT(values(), ElementsAre(1, 2));
  write(false, 3);
  EXPECT_THAT(values(), ElementsAre(3));
}

TEST_F(SinksTest, LargeBatchIsWrittenInParts) {
  const auto sink = JsonLines(false, false);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Zeros(DType::kInt8, {20'000})}), IsOk());
  }
  EXPECT_FALSE(Contents().empty());
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(ReadJsonLines().size(), 20U);
}

TEST_F(SinksTest, FileThatCannotBeOpenedIsNamed) {
  EXPECT_THAT(MakeJsonLinesSink("json", "/no/such/folder/file", false, true),
              StatusIs(StatusCode::kNotFound, "cannot open '/no/such/folder/file' for JSON lines: No such file"));
  if (geteuid() == 0) return;  // root may write anywhere
  std::ofstream(path_).close();
  std::filesystem::permissions(path_, std::filesystem::perms::none);
  EXPECT_THAT(MakeJsonLinesSink("json", path_, true, true), StatusIs(StatusCode::kPermissionDenied, path_.string()));
}

TEST_F(SinksTest, FullDiskIsAnErrorAtTheFlushAndDoesNotComeBack) {
  const auto sink = MakeJsonLinesSink("json", "/dev/full", true, true);
  ASSERT_THAT(sink, IsOk());
  EXPECT_THAT(Deliver(*sink.value(), kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink.value()->Flush(),
              StatusIs(StatusCode::kInternal, "cannot write to '/dev/full': No space left on device"));
  EXPECT_THAT(sink.value()->Flush(), IsOk()) << "the lost lines are not written again";
}

TEST_F(SinksTest, SinksTakeTapsOnly) {
  const callout_call call = {};
  EXPECT_THAT(JsonLines()->Call(call), StatusIs(StatusCode::kFailedPrecondition, "a sink takes taps"));
  EXPECT_THAT(MakePrintSink("print", 1)->Call(call), StatusIs(StatusCode::kFailedPrecondition, "a sink takes taps"));
  EXPECT_EQ(JsonLines()->lane(), Lane::kNative);
}

TEST_F(SinksTest, NullSinkTakesAndForgets) {
  const auto sink = MakeNullSink("null");
  EXPECT_EQ(sink->label(), "null");
  EXPECT_EQ(sink->lane(), Lane::kNative);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink->Flush(), IsOk());
}

TEST_F(SinksTest, PrintSinkWritesOneLineARecord) {
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  const auto sink = MakePrintSink("print", fd);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(0.25)}), IsOk());
  EXPECT_THAT(Deliver(*sink, {"state", {"x", "y"}}, {TestBuffer::Scalar(1), TestBuffer::Of<float>({2}, {1.5F, 2})}),
              IsOk());
  EXPECT_EQ(Contents(), "");
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Contents(), "loss: 0.25\nstate: x=1 y=[1.5 2]\n");
  close(fd);
}

TEST_F(SinksTest, PrintSinksOfOneOutputKeepTheOrderOfTheirRecords) {
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  const auto first = MakePrintSink("first", fd), second = MakePrintSink("second", fd);
  const SiteInfo a{"a", {""}}, b{"b", {""}};
  for (const float value : {1.0F, 2.0F}) {
    EXPECT_THAT(Deliver(*first, a, {TestBuffer::Scalar(value)}), IsOk());
    EXPECT_THAT(Deliver(*second, b, {TestBuffer::Scalar(value)}), IsOk());
  }
  EXPECT_THAT(first->Flush(), IsOk());
  EXPECT_THAT(second->Flush(), IsOk());
  EXPECT_EQ(Contents(), "a: 1\nb: 1\na: 2\nb: 2\n");
  close(fd);
}

TEST_F(SinksTest, PrintSinkReportsAClosedOutput) {
  const int fd = open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  const auto sink = MakePrintSink("print", fd);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink->Flush(), StatusIs(StatusCode::kInternal,
                                      "cannot write to file descriptor " + std::to_string(fd) + ": No space left"));
  close(fd);
}

TEST_F(SinksTest, PrintSinkWritesToStandardOutputByDefault) {
  const auto sink = MakePrintSink("print", -1);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(3)}), IsOk());
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "loss: 3\n");
}

}  // namespace
}  // namespace callout::internal
