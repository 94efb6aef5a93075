// SPDX-License-Identifier: Apache-2.0
//
// Whole lines on their way to a file descriptor; on a terminal also colours and one line that is written over.
// IsCapableTerminal and the functions beside it say whether a file descriptor is a terminal, and what it can do.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/base/thread_annotations.h"

namespace callout::internal {

/// What stands around a name and a value. Empty: no colours.
struct Colours {
  std::string_view name;
  std::string_view value;
  std::string_view end;
};

inline constexpr Colours kNoColours = {};
inline constexpr Colours kTerminalColours = {.name = "\x1b[1m", .value = "\x1b[36m", .end = "\x1b[0m"};

// Whole lines on their way to a file descriptor, and on a terminal one line that is written over.
// IsCapableTerminal and the functions beside it say whether a file descriptor is a terminal, and what it can do.

/// True for a terminal that understands escape sequences (TERM is neither "dumb" nor empty).
bool IsCapableTerminal(int fd);

/// As IsCapableTerminal, unless the user wants no colours (NO_COLOR, see no-color.org).
bool WantsColours(int fd);

/// Columns of the terminal; 0 if it does not say.
size_t TerminalColumns(int fd);

/// One line of at most `columns` columns, a code point each; 0: of any length. New lines become spaces. Colours take no
/// place, and end where the line is cut.
CALLOUT_EXPORT std::string FitOnLine(std::string_view text, size_t columns);

/// Thread-safe.
class CALLOUT_EXPORT TextOutput {
 public:
  /// The output of one sink alone. Borrowed: `fd` outlives it. `what` is the file's name in errors.
  TextOutput(int fd, std::string what) : fd_(fd), what_(std::move(what)) {}
  /// Ends the line that is written over.
  ~TextOutput();
  TextOutput(const TextOutput&) = delete;
  TextOutput& operator=(const TextOutput&) = delete;
  /// Shared by all sinks that print to `fd` (-1: standard output), so that lines come in the order of their records.
  static std::shared_ptr<TextOutput> Of(int fd);

  int fd() const { return fd_; }
  /// `append` adds whole lines, or says why not: what it added then is dropped. Written at once when there are many.
  Status Add(const std::function<Status(std::string& lines)>& append);
  /// `write` makes the line that the next one replaces, as far as the terminal is wide. Lines that are added stay above
  /// it and end it. Only the last one of a batch is seen.
  Status Replace(const std::function<Status(std::string& line)>& write);
  /// Writes what was added. Error: Internal, with the file's name and errno's text; the lines are gone then.
  Status Flush();

 private:
  void ShowReplaced() CALLOUT_REQUIRES(mutex_);
  void EndReplaced() CALLOUT_REQUIRES(mutex_);
  Status Write(int patience_ms = -1) CALLOUT_REQUIRES(mutex_);
  static void EndAll();

  const int fd_;
  const std::string what_;
  Mutex mutex_;
  std::string lines_ CALLOUT_GUARDED_BY(mutex_);
  std::string replacing_ CALLOUT_GUARDED_BY(mutex_);      ///< To be shown.
  bool is_replacing_ CALLOUT_GUARDED_BY(mutex_) = false;  ///< There is one to be shown.
  bool is_line_open_ CALLOUT_GUARDED_BY(mutex_) = false;  ///< One is shown.
};

}  // namespace callout::internal
