// SPDX-License-Identifier: Apache-2.0
//
// Process-wide services: the log, the watchdog, fork and exit.
#include "module_bindings.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "core/base/helper_threads.h"
#include "core/base/log.h"
#include "core/base/platform.h"
#include "core/base/process_state.h"
#include "core/base/ticks.h"
#include "core/delivery/watchdog.h"
#include "core/encoding/error_tag.h"
#include "gil.h"
#include "python_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

// CPython's own dumper, made for faulthandler: it walks the thread states without the GIL. It is exported but not
// declared in public headers (pycore_traceback.h), so it is looked up by name and may be missing.
using DumpThreads = const char* (*)(int fd, PyInterpreterState* interpreter, PyThreadState* current);

// Replaces the dumper for interpreters that hide it (CPython 3.13): another thread takes the GIL and formats the
// stacks, and this thread waits at most a second for the text.
std::string AskForPythonStacks() {
  auto text = std::make_shared<std::promise<std::string>>();
  std::future<std::string> answer = text->get_future();
  const auto ask = [text] {
    const GilScope gil(ThreadState::kDrop);
    const Ref module(gil.ok() ? PyImport_ImportModule("callout._base.loggers") : nullptr);
    const Ref stacks(module ? PyObject_CallMethod(module.get(), "format_stacks", nullptr) : nullptr);
    std::optional<std::string> utf8 = stacks ? Utf8Of(stacks.get()) : std::nullopt;
    if (gil.ok()) PyErr_Clear();
    text->set_value(std::move(utf8).value_or("(the interpreter's stacks could not be read)"));
  };
  try {
    std::thread(ask).detach();
  } catch (const std::system_error& error) {
    return std::string("(the interpreter's stacks could not be read: no thread: ") + error.what() + ")";
  }
  if (answer.wait_for(std::chrono::seconds(1)) == std::future_status::ready) return answer.get();
  return "(the interpreter's stacks could not be read: whoever holds the GIL did not give it up within a second)";
}

std::string DumpPythonStacks() {
  static const auto dump = reinterpret_cast<DumpThreads>(dlsym(RTLD_DEFAULT, "_Py_DumpTracebackThreads"));
  if (dump == nullptr) return AskForPythonStacks();
  const internal::PrivateFile file = internal::CreatePrivateFile("callout-stacks", /*is_executable=*/false);
  const int fd = file.descriptor;
  if (fd < 0) return "(no memory for the stacks)";
  internal::HidePath(file);
  std::string text = "Python threads:\n";
  if (const char* error = dump(fd, PyInterpreterState_Main(), nullptr)) text += error;
  lseek(fd, 0, SEEK_SET);
  char part[4096];
  for (ssize_t n = 0; (n = read(fd, part, sizeof(part))) > 0;) text.append(part, static_cast<size_t>(n));
  close(fd);
  return text;
}

// Hands a message to Python's logging if this thread holds the GIL. Messages of other threads go to stderr: a thread
// that reports a hang must not wait for the GIL.
bool LogToPython(internal::LogLevel level, std::string_view message, internal::LogSource source) {
  if (internal::ProcessIsExiting() || !HoldsGil()) return false;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  NameThread();
  Ref module(PyImport_ImportModule("callout._base.loggers"));
  const Ref text = StrOf(message);
  Ref result(module && text ? PyObject_CallMethod(module.get(), "emit", "iOi", static_cast<int>(level), text.get(),
                                                  static_cast<int>(source))
                            : nullptr);
  const bool done = static_cast<bool>(result);
  if (!done) PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return done;
}

// Runs `function` on a thread of its own that Python did not start, because Python starts none during shutdown. Returns
// true if the function returned in time; otherwise the thread is left to itself. The thread keeps its thread state:
// before Python 3.12, a child that is forked while a thread state is being made hangs.
bool CallWithTimeout(const nb::object& function, double seconds) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  auto shared = std::make_shared<Shared>();
  internal::RunOnHelperThread([shared, call = std::make_shared<SharedRef>(Ref::Borrow(function.ptr()))] {
    if (const GilScope gil; gil.ok()) {
      NameThread();
      const Ref result = WithoutUnwinding([&] { return Ref(PyObject_CallNoArgs(call->get())); });
      if (!result) PyErr_WriteUnraisable(call->get());
    }
    const std::lock_guard lock(shared->mutex);
    shared->done = true;
    shared->changed.notify_all();
  });
  using Clock = std::chrono::steady_clock;
  const auto deadline = internal::DeadlineAfter(seconds);
  for (;;) {
    {
      const GilRelease release;
      std::unique_lock lock(shared->mutex);
      const auto slice = std::min(deadline, Clock::now() + std::chrono::milliseconds(100));
      shared->changed.wait_until(lock, slice, [&] { return shared->done; });
      if (shared->done) return true;
    }
    if (Clock::now() >= deadline) return false;
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
  }
}

}  // namespace

void BindProcess(nb::module_& m) {
  internal::SetLogHandler(&LogToPython);
  internal::SetStackDumper(&DumpPythonStacks);
  m.def("set_log_level", &internal::SetLogLevel, nb::arg("level"));
  m.def(
      "set_hang_report_seconds",
      [](double seconds) {
        const GilRelease release;
        internal::SetHangReportSeconds(seconds);
      },
      nb::arg("seconds"));
  m.def("stop_watchdog", [] {
    const GilRelease release;
    internal::StopWatchdog();
  });
  m.def("call_with_timeout", &CallWithTimeout, nb::arg("function"), nb::arg("seconds"),
        "Runs function() on a thread; False if it is not back in `seconds`.");
  m.def("is_forked_child", &internal::ProcessIsForkedChild);
  m.attr("FORK_TEXT") = internal::kForkText;
  m.def("error_token", &internal::ErrorToken, "The word of this process in tags of errors.");
  m.def("note_process_is_used", &internal::NoteProcessIsUsed);
  m.def("begin_exit", [] { internal::SetProcessIsExiting(true); });
  m.def("close_interpreter", &CloseInterpreter, nb::arg("seconds"), "Number of threads still inside Python.");
}

}  // namespace callout::python
