// SPDX-License-Identifier: Apache-2.0
#include "core/base/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

namespace callout::internal {
namespace {

class WriteAllTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_), 0); }
  void TearDown() override {
    for (const int end : ends_) close(end);
  }

  /// Reads everything until the pipe has no writer.
  std::string ReadToTheEnd() const {
    std::string all;
    char part[4096];
    for (ssize_t n = 0; (n = read(ends_[0], part, sizeof(part))) > 0;) all.append(part, static_cast<size_t>(n));
    return all;
  }

  int ends_[2] = {-1, -1};
};

TEST_F(WriteAllTest, AFullPipeThatDoesNotBlockLosesNothing) {
  ASSERT_EQ(fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
  const std::string text(1 << 20, 'x');  // sixteen times a pipe's capacity
  size_t written = 0;
  std::thread writer([&] {
    written = WriteAll(ends_[1], text);
    close(ends_[1]);
  });
  EXPECT_EQ(ReadToTheEnd(), text);
  writer.join();
  ends_[1] = dup(ends_[0]);
  EXPECT_EQ(written, text.size());
}

TEST_F(WriteAllTest, PatienceWithAFullPipeEnds) {
  ASSERT_EQ(fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
  const std::string text(1 << 20, 'x');
  EXPECT_LT(WriteAll(ends_[1], text, /*patience_ms=*/1), text.size());
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(WriteAllTest, APipeWithoutAReaderEndsIt) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  close(ends_[0]);
  ends_[0] = dup(ends_[1]);
  EXPECT_EQ(WriteAll(ends_[1], "x"), 0U);
  EXPECT_EQ(errno, EPIPE);
  std::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace callout::internal
