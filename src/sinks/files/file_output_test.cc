// SPDX-License-Identifier: Apache-2.0
#include "sinks/files/file_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>

#include "core/base/file_io.h"
#include "sinks/files/tf_record.h"
#include "testing/file_size_limit.h"
#include "testing/log_capture.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileOutputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::path(::testing::TempDir()) / ("file_output." + test + "." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "log";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<FileOutput> Open(const FileOptions& options = {}, const FindEnd& find_end = &EndOfLines) {
    auto file = FileOutput::Open(path_, options, "lines", find_end);
    EXPECT_THAT(file, IsOk());
    return file.ok() ? std::move(file).value() : nullptr;
  }
  Status OpenStatus(const FileOptions& options = {}) { return FileOutput::Open(path_, options, "lines").status(); }

  static Status Add(FileOutput& file, std::string_view record) {
    return file.Add([&](std::string& bytes) { return bytes += record, OkStatus(); });
  }
  static std::string Read(const std::string& path) {
    auto bytes = ReadFile(path, "a test's file");
    return bytes.ok() ? std::move(bytes).value() : std::string(bytes.status().message());
  }
  std::string Contents(const std::string& suffix = "") const { return Read(path_.string() + suffix); }
  void Put(std::string_view bytes) {
    FILE* file = std::fopen(path_.c_str(), "w");
    ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
    std::fclose(file);
  }
  bool Exists(const std::string& suffix) const { return std::filesystem::exists(path_.string() + suffix); }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

// A process that runs `body`, and then waits until it is killed or released.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    EXPECT_EQ(pipe(ready_), 0);
    EXPECT_EQ(pipe(end_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(end_[1]);
      body();
      char byte = 'r';
      (void)!write(ready_[1], &byte, 1);
      (void)!read(end_[0], &byte, 1);  // Returns when the parent, and nobody else, has closed the pipe.
      _exit(0);
    }
    char byte;
    EXPECT_EQ(read(ready_[0], &byte, 1), 1);
  }
  ~Child() { End(SIGKILL); }
  void End(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(pid_, nullptr, 0);
    for (const int fd : {ready_[0], ready_[1], end_[0], end_[1]}) close(fd);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  int ready_[2], end_[2];
  pid_t pid_;
};

TEST_F(FileOutputTest, WritesAtTheEndOfABatch) {
  const auto file = Open();
  EXPECT_THAT(Add(*file, "a\n"), IsOk());
  EXPECT_THAT(Add(*file, "b\n"), IsOk());
  EXPECT_EQ(Contents(), "");
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Contents(), "a\nb\n");
}

TEST_F(FileOutputTest, ARecordThatFailsLeavesNothing) {
  const auto file = Open();
  EXPECT_THAT(Add(*file, "a\n"), IsOk());
  EXPECT_THAT(file->Add([](std::string& bytes) { return bytes += "half", InvalidArgument("no"); }),
              StatusIs(StatusCode::kInvalidArgument, "no"));
  EXPECT_THAT(Add(*file, "b\n"), IsOk());
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Contents(), "a\nb\n");
}

TEST_F(FileOutputTest, OneSinkOfAProcessWritesAFile) {
  const auto file = Open();
  EXPECT_THAT(Add(*file, "kept\n"), IsOk());
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_THAT(OpenStatus(),
              StatusIs(StatusCode::kAlreadyExists,
                       "cannot open '" + path_.string() + "' for lines: another sink of this process is writing it"));
  std::filesystem::create_hard_link(path_, folder_ / "other name");
  EXPECT_THAT(FileOutput::Open(folder_ / "other name", {}, "lines").status(),
              StatusIs(StatusCode::kAlreadyExists, "another sink"));
  EXPECT_EQ(Contents(), "kept\n") << "whoever is refused must not have emptied it";
  EXPECT_THAT(file->Close(), IsOk());
  EXPECT_THAT(OpenStatus(), IsOk());
}

TEST_F(FileOutputTest, OneProcessWritesAFile) {
  Child child([this] { (void)Open().release(); });
  const std::string its_number = "for lines: process " + std::to_string(child.pid()) + " is writing it";
  EXPECT_THAT(OpenStatus(), StatusIs(StatusCode::kAlreadyExists,
                                     AnyOf(HasSubstr(its_number), HasSubstr("for lines: another process is"))));
  child.End(SIGKILL);
  EXPECT_THAT(OpenStatus(), IsOk());
}

TEST_F(FileOutputTest, AForkedChildDoesNotKeepTheFile) {
  auto file = Open();
  Child child([] {});
  EXPECT_THAT(file->Close(), IsOk());
  EXPECT_THAT(OpenStatus(), IsOk());
}

TEST_F(FileOutputTest, AForkedChildOfAKilledProcessDoesNotKeepTheFile) {
  int alive[2], forked[2];
  ASSERT_EQ(pipe(alive), 0);
  ASSERT_EQ(pipe(forked), 0);
  Child child([&] {
    (void)Open().release();
    char byte = 'f';
    if (fork() == 0) {  // This process outlives its parent, until the test ends.
      close(alive[1]);
      (void)!write(forked[1], &byte, 1);
      (void)!read(alive[0], &byte, 1);
      _exit(0);
    }
    (void)!read(forked[0], &byte, 1);
  });
  EXPECT_THAT(OpenStatus(), StatusIs(StatusCode::kAlreadyExists, "is writing it"));
  child.End(SIGKILL);
  EXPECT_THAT(OpenStatus(), IsOk());
  for (const int fd : {alive[0], alive[1], forked[0], forked[1]}) close(fd);
}

TEST_F(FileOutputTest, AForkedChildWritesNothing) {
  auto file = Open();
  EXPECT_THAT(Add(*file, "once\n"), IsOk());
  Child child([&] {
    const bool refused = Add(*file, "child\n").code() == StatusCode::kFailedPrecondition;
    const bool flushed = file->Flush().ok();
    file.reset();
    if (!refused || !flushed) _exit(1);  // The test then waits for a byte, and gets the end of the pipe instead.
  });
  EXPECT_EQ(Contents(), "");
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Contents(), "once\n");
}

TEST_F(FileOutputTest, AppendsBehindTheLastWholeLine) {
  const LogCapture log;
  Put("a\nb\nhalf a li");
  {
    const auto file = Open({.append = true});
    EXPECT_EQ(Contents(), "a\nb\n");
    EXPECT_THAT(Add(*file, "c\n"), IsOk());
  }
  EXPECT_EQ(Contents(), "a\nb\nc\n");
  EXPECT_THAT(log.messages(), ElementsAre("30 '" + path_.string() +
                                          "' ends in a record that was not written whole: its 9 bytes are cut off"));
  (void)Open({.append = true});
  EXPECT_EQ(log.messages().size(), 1U) << "a whole file is nothing to tell about";
}

TEST_F(FileOutputTest, CutsALongLineWithoutEnd) {
  const LogCapture log;
  Put("a\n" + std::string(1'000'000, 'x'));
  (void)Open({.append = true});
  EXPECT_EQ(Contents(), "a\n");
  Put(std::string(100'000, 'x'));
  (void)Open({.append = true});
  EXPECT_EQ(Contents(), "");
}

TEST_F(FileOutputTest, AFileWithoutLinesIsNotEmptied) {
  Put(std::string(20 << 20, 'x'));
  EXPECT_THAT(OpenStatus({.append = true}), StatusIs(StatusCode::kInvalidArgument, "20971520 bytes and no line"));
  EXPECT_EQ(std::filesystem::file_size(path_), 20 << 20);
}

TEST_F(FileOutputTest, AppendsBehindTheLastValidTfRecord) {
  std::string records;
  AppendTfRecord("first", records);
  AppendTfRecord(std::string(1000, '\0'), records);
  const std::string whole = records;
  AppendTfRecord("third", records);
  for (size_t size = whole.size(); size < records.size(); ++size) {
    const LogCapture log;
    Put(records.substr(0, size));
    (void)Open({.append = true}, &EndOfTfRecords);
    EXPECT_EQ(Contents(), whole) << size;
  }
  records.back() = static_cast<char>(records.back() ^ 1);
  {
    const LogCapture log;
    Put(records);
    (void)Open({.append = true}, &EndOfTfRecords);
    EXPECT_EQ(Contents(), whole);
  }
  Put("something else");
  EXPECT_THAT(FileOutput::Open(path_, {.append = true}, "events", &EndOfTfRecords).status(),
              StatusIs(StatusCode::kInvalidArgument, "it has no records of TFRecord"));
  EXPECT_EQ(Contents(), "something else");
}

TEST_F(FileOutputTest, AFullDiskLosesWholeRecordsAndIsTriedAgain) {
  const auto file = Open();
  EXPECT_THAT(Add(*file, "first\n"), IsOk());
  EXPECT_THAT(file->Flush(), IsOk());
  {
    const FileSizeLimit limit(15);
    for (const char* record : {"second\n", "third\n", "fourth\n"}) EXPECT_THAT(Add(*file, record), IsOk());
    EXPECT_THAT(file->Flush(), StatusIs(StatusCode::kInternal, "cannot write to '" + path_.string() +
                                                                   "': File too large; 2 records are lost"));
    EXPECT_EQ(Contents(), "first\nsecond\n") << "no half a line";
    EXPECT_THAT(Add(*file, "fifth\n"), IsOk());
    EXPECT_THAT(file->Flush(), StatusIs(StatusCode::kInternal, "1 records are lost"));
    EXPECT_THAT(Add(*file, "6\n"), IsOk());
    EXPECT_THAT(file->Flush(), IsOk()) << "what fits is written";
  }
  EXPECT_THAT(Add(*file, "seventh\n"), IsOk());
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Contents(), "first\nsecond\n6\nseventh\n");
}

TEST_F(FileOutputTest, ManyPartsAreARecord) {
  const auto file = Open();
  file->SetHeader("h");
  EXPECT_THAT(file->AddParts(std::vector<std::string_view>{"a", "", "b\n"}, 1), IsOk());
  EXPECT_EQ(Contents(), "");
  const std::vector<std::string_view> parts(
      3000, "a hundred letters, three thousand times: more than is kept for the end of the batch, and in more parts");
  std::string all = "hab\n";
  for (const std::string_view part : parts) all += part;
  EXPECT_THAT(file->AddParts(parts, 2), IsOk());
  EXPECT_TRUE(Contents() == all);
  {
    const FileSizeLimit limit(all.size() + 250'000);
    EXPECT_THAT(file->AddParts(parts, 2), StatusIs(StatusCode::kInternal, "File too large; 2 records are lost"));
  }
  EXPECT_TRUE(Contents() == all) << "what was written of them is cut off";
}

TEST_F(FileOutputTest, ALargeRecordBeginsAFileOfItsOwnWhereFilesAreRotated) {
  const std::string large(300 << 10, 'l');
  const auto file = Open({.rotate_bytes = 100});
  EXPECT_THAT(Add(*file, "small"), IsOk());
  for (int i = 0; i < 2; ++i) EXPECT_THAT(file->AddParts(std::vector<std::string_view>{large}, 1), IsOk());
  EXPECT_EQ(Contents(".2"), "small");
  EXPECT_TRUE(Contents(".1") == large && Contents() == large);
}

TEST_F(FileOutputTest, AHeaderThatDoesNotFitIsWrittenLater) {
  const auto file = Open();
  file->SetHeader("name,value\n");
  {
    const FileSizeLimit limit(5);
    EXPECT_THAT(Add(*file, "a,1\n"), IsOk());
    EXPECT_THAT(file->Flush(), StatusIs(StatusCode::kInternal, "File too large; 1 records are lost"));
    EXPECT_EQ(Contents(), "");
  }
  EXPECT_THAT(Add(*file, "b,2\n"), IsOk());
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Contents(), "name,value\nb,2\n");
}

TEST_F(FileOutputTest, RotatesWholeRecordsAndKeepsSome) {
  const auto file = Open({.rotate_bytes = 10, .keep = 2});
  file->SetHeader("h\n");
  for (const char* record : {"a1\n", "a2\n", "b1\n", "b2\n", "c1\n", "c2\n", "d1\n"}) {
    EXPECT_THAT(Add(*file, record), IsOk());
  }
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Contents(), "h\nd1\n");
  EXPECT_EQ(Contents(".1"), "h\nc1\nc2\n");
  EXPECT_EQ(Contents(".2"), "h\nb1\nb2\n");
  EXPECT_FALSE(Exists(".3"));
  EXPECT_THAT(OpenStatus(), StatusIs(StatusCode::kAlreadyExists, "another sink")) << "the new file is locked too";
}

TEST_F(FileOutputTest, ARecordLargerThanAFileHasOneOfItsOwn) {
  const auto file = Open({.rotate_bytes = 4});
  for (const char* record : {"a large one\n", "b\n", "c\n", "d\n"}) EXPECT_THAT(Add(*file, record), IsOk());
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Contents(), "d\n");
  EXPECT_EQ(Contents(".1"), "b\nc\n");
  EXPECT_EQ(Contents(".2"), "a large one\n");
}

TEST_F(FileOutputTest, ANewBeginningRemovesTheRotatedFilesOfTheOneBefore) {
  const auto write = [&](const FileOptions& options) {
    const auto file = Open(options);
    for (const char* record : {"a\n", "b\n", "c\n"}) EXPECT_THAT(Add(*file, record), IsOk());
    return file->Close();
  };
  EXPECT_THAT(write({.rotate_bytes = 2}), IsOk());
  EXPECT_THAT(write({.append = true, .rotate_bytes = 2}), IsOk());
  EXPECT_TRUE(Exists(".5"));
  EXPECT_THAT(write({.rotate_bytes = 2}), IsOk());
  EXPECT_TRUE(Exists(".2"));
  EXPECT_FALSE(Exists(".3"));
}

TEST_F(FileOutputTest, GoesOnWhereItCannotRotate) {
  std::filesystem::create_directories(path_.string() + ".1/full");
  const auto file = Open({.append = true, .rotate_bytes = 4, .keep = 1});
  EXPECT_THAT(Add(*file, "aa\n"), IsOk());
  EXPECT_THAT(Add(*file, "bb\n"), StatusIs(StatusCode::kNotFound, "cannot rotate '" + path_.string() + "'"));
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_EQ(Contents(), "aa\nbb\n");
}

TEST_F(FileOutputTest, AnotherWorkingDirectoryChangesNothing) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  auto file = FileOutput::Open("relative", {.rotate_bytes = 2}, "lines");
  std::filesystem::current_path(before);
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(Add(**file, "a\n"), IsOk());
  EXPECT_THAT(Add(**file, "b\n"), IsOk());
  EXPECT_THAT((*file)->Flush(), IsOk());
  EXPECT_EQ(Read(folder_ / "relative"), "b\n");
  EXPECT_EQ(Read(folder_ / "relative.1"), "a\n");
}

TEST_F(FileOutputTest, SyncsWhenItIsTold) {
  for (const double seconds : {0.0, 1e9, FileOptions::kNever}) {
    const auto file = Open({.fsync_seconds = seconds});
    EXPECT_THAT(Add(*file, "a\n"), IsOk());
    EXPECT_THAT(file->Flush(), IsOk());
    EXPECT_THAT(file->Close(), IsOk());
  }
}

TEST_F(FileOutputTest, AClosedFileTakesNothing) {
  const auto file = Open();
  EXPECT_THAT(Add(*file, "a\n"), IsOk());
  EXPECT_THAT(file->Close(), IsOk());
  EXPECT_EQ(Contents(), "a\n");
  EXPECT_THAT(Add(*file, "b\n"),
              StatusIs(StatusCode::kFailedPrecondition, "cannot write to '" + path_.string() + "': it is closed"));
  EXPECT_THAT(file->Flush(), IsOk());
  EXPECT_THAT(file->Close(), IsOk());
}

TEST_F(FileOutputTest, WhatIsNoRegularFileIsNotLocked) {
  const auto open = [](const FileOptions& options) { return FileOutput::Open("/dev/null", options, "lines"); };
  const auto one = open({}), two = open({.append = true, .fsync_seconds = 0});
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(two, IsOk());
  EXPECT_THAT(Add(**two, "a\n"), IsOk());
  EXPECT_THAT((*two)->Flush(), IsOk());
  EXPECT_THAT(open({.rotate_bytes = 5}).status(), StatusIs(StatusCode::kInvalidArgument, "only regular files"));
}

TEST_F(FileOutputTest, SaysSoWhenTheEndIsLost) {
  const LogCapture log;
  {
    auto file = FileOutput::Open("/dev/full", {}, "lines");
    ASSERT_THAT(file, IsOk());
    EXPECT_THAT(Add(**file, "a\n"), IsOk());
  }
  EXPECT_THAT(log.messages(),
              ElementsAre("40 cannot write to '/dev/full': No space left on device; 1 records are lost"));
}

}  // namespace
}  // namespace callout::internal
