// SPDX-License-Identifier: Apache-2.0
//
// Whole lines on their way to a file descriptor; on a terminal, also colours, and one line that is overwritten.
// IsCapableTerminal and the functions next to it detect whether a file descriptor is a terminal, and what the terminal
// can do.
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

/// Escape sequences around a name and a value. Empty: no colours.
struct Colours {
  std::string_view name;
  std::string_view value;
  std::string_view end;
};

inline constexpr Colours kNoColours = {};
inline constexpr Colours kTerminalColours = {.name = "\x1b[1m", .value = "\x1b[36m", .end = "\x1b[0m"};

/// Returns true for a terminal that understands escape sequences (TERM is neither "dumb" nor empty).
bool IsCapableTerminal(int fd);

/// Returns true for a capable terminal, unless the user wants no colours (NO_COLOR, see no-color.org).
bool WantsColours(int fd);

/// Returns the columns of the terminal, or 0 if unknown.
size_t TerminalColumns(int fd);

/// Returns one line of at most `columns` columns, a code point each; 0: of any length. New lines become spaces. Colours
/// take no columns, and end where the line is cut.
CALLOUT_EXPORT std::string FitOnLine(std::string_view text, size_t columns);

/// Thread-safe.
class CALLOUT_EXPORT TextOutput {
 public:
  /// Makes an output for one sink alone. Borrowed: `fd` must stay open as long as the output lives. `what` is the
  /// file's name in errors.
  TextOutput(int fd, std::string what) : fd_(fd), what_(std::move(what)) {}
  /// Ends the line that is overwritten.
  ~TextOutput();
  TextOutput(const TextOutput&) = delete;
  TextOutput& operator=(const TextOutput&) = delete;
  /// Returns the output that all sinks that print to `fd` share, so that lines come in the order of their records. -1:
  /// standard output.
  static std::shared_ptr<TextOutput> Of(int fd);

  int fd() const { return fd_; }
  /// Adds lines. `append` appends whole lines; on an error, the appended text is dropped. Many lines are written at
  /// once.
  Status Add(const std::function<Status(std::string& lines)>& append);
  /// Replaces the last line by the line that `write` makes, cut to the terminal's width. Lines from Add end the
  /// replaced line and stay above the next one. Only the last replacement in a batch is seen.
  Status Replace(const std::function<Status(std::string& line)>& write);
  /// Writes the added lines. Error: Internal, with the file's name and errno's text; the lines are lost then.
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
  std::string replacing_ CALLOUT_GUARDED_BY(mutex_);      ///< The line to show.
  bool is_replacing_ CALLOUT_GUARDED_BY(mutex_) = false;  ///< `replacing_` has to be shown.
  bool is_line_open_ CALLOUT_GUARDED_BY(mutex_) = false;  ///< A replaceable line is on the screen.
};

}  // namespace callout::internal
