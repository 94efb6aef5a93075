// SPDX-License-Identifier: Apache-2.0
#include "sinks/text_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/cat.h"
#include "core/base/file_io.h"
#include "core/base/process_state.h"
#include "core/encoding/utf8.h"

namespace callout::internal {
namespace {

constexpr char kEscape = '\x1b';

std::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// Returns the length of the escape sequence ("\x1b[36m") at the beginning of `text`.
size_t EscapeLength(std::string_view text) {
  const size_t end = text.find('m');
  return end == std::string_view::npos ? text.size() : end + 1;
}

}  // namespace

bool IsCapableTerminal(int fd) {
  const std::string_view term = Environment("TERM");
  return isatty(fd) == 1 && !term.empty() && term != "dumb";
}

bool WantsColours(int fd) { return IsCapableTerminal(fd) && Environment("NO_COLOR").empty(); }

size_t TerminalColumns(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string FitOnLine(std::string_view text, size_t columns) {
  std::string out;
  size_t column = 0;
  bool is_coloured = false;
  while (!text.empty()) {
    if (text[0] == kEscape) {
      const size_t length = EscapeLength(text);
      out += text.substr(0, length);
      is_coloured = text.substr(0, length) != kTerminalColours.end;
      text.remove_prefix(length);
      continue;
    }
    if (columns > 0 && column == columns) break;
    const size_t length = BytesOf(text, 1);
    const bool is_control = static_cast<unsigned char>(text[0]) < 0x20;
    out += is_control ? " " : text.substr(0, length);
    ++column;
    text.remove_prefix(length);
  }
  if (is_coloured) out += kTerminalColours.end;
  return out;
}

namespace {

constexpr const char* kEraseRest = "\x1b[K";
constexpr size_t kWriteAt = 256 << 10;  // A larger batch is written in parts.
constexpr int kPatienceAtExitMs = 1000;

struct Shared {
  Mutex mutex;
  std::map<int, std::weak_ptr<TextOutput>> by_fd CALLOUT_GUARDED_BY(mutex);
};

Shared& GetShared() {
  static Shared* const shared = new Shared;  // Leaked: sinks may live until the process ends.
  return *shared;
}

}  // namespace

std::shared_ptr<TextOutput> TextOutput::Of(int fd) {
  if (fd < 0) fd = STDOUT_FILENO;
  Shared& shared = GetShared();
  MutexLock lock(shared.mutex);
  std::weak_ptr<TextOutput>& entry = shared.by_fd[fd];
  if (auto output = entry.lock()) return output;
  auto output = std::make_shared<TextOutput>(fd, fd == STDOUT_FILENO ? "standard output" : Cat("file descriptor ", fd));
  entry = output;
  return output;
}

// Ends the replaced lines at exit, so that the shell's prompt gets a line of its own.
void TextOutput::EndAll() {
  if (ProcessIsForkedChild()) return;  // The line belongs to the parent.
  std::vector<std::shared_ptr<TextOutput>> outputs;
  {
    Shared& shared = GetShared();
    MutexLock lock(shared.mutex);
    for (const auto& [fd, output] : shared.by_fd) outputs.push_back(output.lock());
  }
  for (const auto& output : outputs) {
    if (output == nullptr || !output->mutex_.try_lock()) continue;  // A thread ended during a write.
    output->EndReplaced();
    (void)output->Write(kPatienceAtExitMs);
    output->mutex_.unlock();
  }
}

TextOutput::~TextOutput() {
  if (ProcessIsForkedChild()) return;  // The line belongs to the parent, and one of its threads may have held `mutex_`.
  MutexLock lock(mutex_);
  if (!is_replacing_ && !is_line_open_) return;
  EndReplaced();
  (void)Write();
}

Status TextOutput::Replace(const std::function<Status(std::string& line)>& write) {
  static const bool ends_at_exit = std::atexit(&TextOutput::EndAll) == 0;
  (void)ends_at_exit;
  MutexLock lock(mutex_);
  std::string line;
  CALLOUT_RETURN_IF_ERROR(write(line));
  replacing_ = std::move(line);
  is_replacing_ = true;
  return OkStatus();
}

void TextOutput::ShowReplaced() {
  if (!is_replacing_) return;
  const size_t columns = TerminalColumns(fd_);
  // A terminal may wrap at the next character after its last column is written.
  lines_.append("\r").append(FitOnLine(replacing_, columns > 1 ? columns - 1 : 0)).append(kEraseRest);
  is_replacing_ = false;
  is_line_open_ = true;
}

void TextOutput::EndReplaced() {
  ShowReplaced();
  if (std::exchange(is_line_open_, false)) lines_ += '\n';
}

Status TextOutput::Add(const std::function<Status(std::string& lines)>& append) {
  MutexLock lock(mutex_);
  EndReplaced();
  const size_t before = lines_.size();
  if (Status status = append(lines_); !status.ok()) {
    lines_.resize(before);
    return status;
  }
  return lines_.size() >= kWriteAt ? Write() : OkStatus();
}

Status TextOutput::Flush() {
  MutexLock lock(mutex_);
  ShowReplaced();
  return Write();
}

Status TextOutput::Write(int patience_ms) {
  const std::string lines = std::exchange(lines_, {});
  if (WriteAll(fd_, lines, patience_ms) == lines.size()) return OkStatus();
  return InternalError("cannot write to " + what_ + ": " + std::strerror(errno));
}

}  // namespace callout::internal
