// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/base/file_io.h"
#include "sinks/each_sink_kind.h"
#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

class CsvSinkTest : public LiveCountTest {
 protected:
  void SetUp() override {
    LiveCountTest::SetUp();
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = std::filesystem::path(::testing::TempDir()) / ("csv_sink." + test + "." + std::to_string(getpid()));
  }
  void TearDown() override {
    std::filesystem::remove(path_);
    LiveCountTest::TearDown();
  }

  Result<std::shared_ptr<Callback>> Make(std::vector<std::string> columns = {}, bool append = false) {
    SinkOptions::Given options = {{"path", path_}, {"append", append ? "true" : "false"}};
    for (std::string& column : columns) options.emplace_back("columns", std::move(column));
    return MakeSink("csv", CsvKind(), std::move(options));
  }
  // For tests that need no times.
  std::shared_ptr<Callback> Open(std::vector<std::string> columns) {
    auto sink = Make(std::move(columns));
    EXPECT_THAT(sink, IsOk());
    return std::move(sink).value();
  }
  static Status Deliver(Callback& sink, const SiteInfo& site, std::vector<TestBuffer> buffers,
                        std::optional<int64_t> step = std::nullopt) {
    std::vector<callout_buffer> views;
    for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
    std::vector<void*> blocks(views.size());
    Record record = {};
    record.site = &site;
    record.buffers = views;
    record.blocks = blocks.data();
    record.device_ordinal = 2;
    record.run_id = 5;
    record.sequence = 9;
    record.step = step;
    return sink.Deliver(record);
  }
  std::string Written(Callback& sink) {
    EXPECT_THAT(sink.Flush(), IsOk());
    return ReadFile(path_, "a test's file").value();
  }

  std::filesystem::path path_;
};

const SiteInfo kTrain = {"train", {"loss", "x"}};

TEST_F(CsvSinkTest, TheFirstRecordGivesTheColumns) {
  const auto made = Make();
  ASSERT_THAT(made, IsOk());
  Callback& sink = **made;
  EXPECT_THAT(Deliver(sink, kTrain, {TestBuffer::Scalar(0.5), TestBuffer::Of<int32_t>({2, 1}, {7, -8})}), IsOk());
  const std::string text = Written(sink);
  EXPECT_TRUE(text.starts_with("name,step,device,time,loss,x.0.0,x.1.0\ntrain,0,2,")) << text;
  EXPECT_TRUE(text.ends_with(",0.5,7,-8\n")) << text;
}

TEST_F(CsvSinkTest, ChosenColumnsAreThereAtOnceAndInTheirOrder) {
  const auto sink = Open({"seq", "x.1", "run", "name", "step", "device"});
  EXPECT_EQ(Written(*sink), "seq,x.1,run,name,step,device\n");
  EXPECT_THAT(Deliver(*sink, kTrain, {TestBuffer::Scalar(0.5), TestBuffer::Of<int32_t>({2}, {7, 8})}), IsOk());
  EXPECT_EQ(Written(*sink), "seq,x.1,run,name,step,device\n9,8,5,train,0,2\n");
}

TEST_F(CsvSinkTest, AMissingLeafIsAnEmptyCellAndAnotherOneAnError) {
  const auto made = Make({}, false);
  ASSERT_THAT(made, IsOk());
  Callback& sink = **made;
  EXPECT_THAT(Deliver(sink, {"a", {"x", "y"}}, {TestBuffer::Scalar(1), TestBuffer::Scalar(2)}), IsOk());
  EXPECT_THAT(Deliver(sink, {"b", {"y"}}, {TestBuffer::Scalar(3)}), IsOk());
  EXPECT_THAT(Deliver(sink, {"c", {"y", "z"}}, {TestBuffer::Scalar(3), TestBuffer::Scalar(4)}),
              StatusIs(StatusCode::kInvalidArgument, "cannot write 'c' to '" + path_.string() +
                                                         "': 'z' is none of its columns: name,step,device,time,x,y"));
  const std::string text = Written(sink);
  EXPECT_TRUE(text.ends_with(",,3\n")) << text;
  EXPECT_EQ(text.find("\nc,"), std::string::npos);
}

TEST_F(CsvSinkTest, ARecordWithNoneOfTheChosenColumnsIsAnError) {
  const auto sink = Open({"step", "los"});
  EXPECT_THAT(Deliver(*sink, {"a", {"loss"}}, {TestBuffer::Scalar(1)}),
              StatusIs(StatusCode::kInvalidArgument, "'loss' is none of its columns: step,los"));
}

TEST_F(CsvSinkTest, LargeArraysAreAnError) {
  const auto sink = Open({"value.0"});
  EXPECT_THAT(Deliver(*sink, {"a", {""}}, {TestBuffer::Zeros(DType::kInt8, {64})}), IsOk());
  EXPECT_THAT(Deliver(*sink, {"a", {""}}, {TestBuffer::Zeros(DType::kFloat32, {13, 5})}),
              StatusIs(StatusCode::kInvalidArgument, "'value' is f32[13,5]: a CSV file takes arrays of at most 64"));
}

TEST_F(CsvSinkTest, NumbersReadBack) {
  const auto sink = Open({"value.0", "value.1", "value.2", "value.3", "value.4"});
  const auto write = [&](TestBuffer buffer) { EXPECT_THAT(Deliver(*sink, {"a", {""}}, {std::move(buffer)}), IsOk()); };
  const float infinity = std::numeric_limits<float>::infinity();
  write(TestBuffer::Of<float>({5}, {0.1F, 3, -1e20F, std::nanf(""), -infinity}));
  write(TestBuffer::Of<double>({2}, {0.1, -0.0}));
  write(TestBuffer::Of<int8_t>({2}, {-3, 4}));
  write(TestBuffer(DType::kBool, {2}, {1, 0}));
  write(TestBuffer(DType::kBfloat16, {1}, {0, 0x40}));
  write(TestBuffer::Of<std::complex<float>>({1}, {{1, -2}}));
  EXPECT_EQ(Written(*sink),
            "value.0,value.1,value.2,value.3,value.4\n"
            "0.1,3.0,-1e+20,nan,-inf\n0.1,-0.0,,,\n-3,4,,,\nTrue,False,,,\n2.0,,,,\n1-2j,,,,\n");
}

TEST_F(CsvSinkTest, ElementsStandInTheColumnsOrder) {
  const auto sink = Open({"b.1", "a.1", "a.0", "a.2", "a.3", "b.0"});
  EXPECT_THAT(Deliver(*sink, {"x", {"a", "b"}},
                      {TestBuffer::Of<int32_t>({4}, {0, 1, 2, 3}), TestBuffer::Of<float>({2}, {4, 5})}),
              IsOk());
  EXPECT_EQ(Written(*sink), "b.1,a.1,a.0,a.2,a.3,b.0\n5.0,1,0,2,3,4.0\n");
}

TEST_F(CsvSinkTest, LeavesDoNotHideTheRecordsFields) {
  const auto made = Make({"name", "value.name", "step", "value.step"});
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(Deliver(**made, {"a", {"name", "step"}}, {TestBuffer::Scalar(1), TestBuffer::Scalar(2.5)}), IsOk());
  EXPECT_THAT(Deliver(**made, {"a", {"name", "step"}}, {TestBuffer::Scalar(3), TestBuffer::Scalar<int32_t>(40)}),
              IsOk());
  EXPECT_EQ(Written(**made), "name,value.name,step,value.step\na,1,0,2.5\na,3,40,\n");
}

TEST_F(CsvSinkTest, NamesAreQuotedAndStayOnTheirLine) {
  const auto sink = Open({"name", "a,\"b\""});
  EXPECT_THAT(Deliver(*sink, {"x\n\"y\", z", {"a,\"b\""}}, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_EQ(Written(*sink), "name,\"a,\"\"b\"\"\"\n\"x\\n\"\"y\"\", z\",1\n");
}

TEST_F(CsvSinkTest, TwoColumnsOfOneNameAreAnError) {
  EXPECT_THAT(Make({"a", "b", "a"}), StatusIs(StatusCode::kInvalidArgument, "for CSV: two columns are called 'a'"));
  EXPECT_FALSE(std::filesystem::exists(path_));
  const auto made = Make();
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(Deliver(**made, {"t", {"x", "x.0"}}, {TestBuffer::Of<int32_t>({1}, {1}), TestBuffer::Scalar(2)}),
              StatusIs(StatusCode::kInvalidArgument, "two columns are called 'x.0'"));
}

TEST_F(CsvSinkTest, AppendsToTheColumnsOfTheFileBehindItsSteps) {
  const LogCapture log;
  std::ofstream(path_) << "loss,step,name\r\n0.5,41,train\n0.25,7,eval\n0.125,4";
  const auto made = Make({}, /*append=*/true);
  ASSERT_THAT(made, IsOk());
  for (const char* name : {"train", "eval", "new"}) {
    EXPECT_THAT(Deliver(**made, {name, {"loss"}}, {TestBuffer::Scalar(1.5)}), IsOk());
  }
  EXPECT_THAT(Deliver(**made, {"train", {"loss"}}, {TestBuffer::Scalar(2.5)}, 100), IsOk());
  EXPECT_EQ(Written(**made),
            "loss,step,name\r\n0.5,41,train\n0.25,7,eval\n1.5,42,train\n1.5,8,eval\n1.5,0,new\n2.5,100,train\n");
}

TEST_F(CsvSinkTest, AFileWithOtherColumnsIsLeftAsItIs) {
  const std::string text = "a,b\n1,2\n3,";
  std::ofstream(path_) << text;
  EXPECT_THAT(Make({"a", "c"}, true),
              StatusIs(StatusCode::kInvalidArgument,
                       "cannot append to '" + path_.string() + "': its columns are a,b, expected a,c"));
  EXPECT_EQ(ReadFile(path_, "it").value(), text);
  std::ofstream(path_) << "\"no header\n";
  EXPECT_THAT(Make({}, true), StatusIs(StatusCode::kInvalidArgument, "its first line is no header: \"no header"));
}

TEST_F(CsvSinkTest, EachRotatedFileHasTheHeader) {
  auto made =
      MakeSink("csv", CsvKind(), {{"path", path_}, {"rotate_bytes", "16"}, {"columns", "step"}, {"columns", "value"}});
  ASSERT_THAT(made, IsOk());
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Deliver(**made, {"a", {""}}, {TestBuffer::Scalar(i)}), IsOk());
  EXPECT_EQ(Written(**made), "step,value\n3,3\n");
  for (const char* suffix : {".1", ".2", ".3"}) {
    const std::string text = ReadFile(path_.string() + suffix, "it").value();
    EXPECT_TRUE(text.starts_with("step,value\n")) << text;
    std::filesystem::remove(path_.string() + suffix);
  }
}

TEST(CsvTextTest, ReadsBackWhatItWrites) {
  const std::vector<std::string> cells = {"a", "", "b,c", "\"", "d\"e\"", "\r", " x "};
  const std::string line = CsvLine(cells);
  EXPECT_THAT(ParseCsvLine(std::string_view(line).substr(0, line.size() - 1)), Optional(cells));
  EXPECT_THAT(ParseCsvLine("a,\"b\"\r"), Optional(ElementsAre("a", "b")));
  EXPECT_THAT(ParseCsvLine(""), Optional(ElementsAre("")));
  for (const char* bad : {"\"a", "a\"b", "\"a\"b", "\""}) EXPECT_EQ(ParseCsvLine(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace callout::internal
