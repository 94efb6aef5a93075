// SPDX-License-Identifier: Apache-2.0
//
// The interpreter and threads that Python did not start: they get the GIL cheaply, do not get it once the interpreter
// goes away, and may drop references from anywhere.
#pragma once

#include "python_api.h"
#include "unwinding.h"

namespace callout::python {

/// How long Python keeps the thread state of a thread that it did not start.
enum class ThreadState {
  /// It stays as long as the thread: the next entry costs 0.1 us instead of 0.6. For threads that live long.
  kKeep,
  kDrop,  ///< It goes with the scope and the scopes inside. For threads that may end at any time.
};

/// Holds the GIL for its lifetime, on any thread. Check ok(): false once the interpreter is going away. Scopes nest.
class GilScope {
 public:
  explicit GilScope(ThreadState thread_state = ThreadState::kKeep);
  ~GilScope();
  GilScope(const GilScope&) = delete;
  GilScope& operator=(const GilScope&) = delete;
  bool ok() const { return ok_; }
  /// True on a thread that Python did not start, such as one of XLA's pool, which runs asynchronously dispatched
  /// programs.
  bool on_foreign_thread() const { return on_foreign_thread_; }

 private:
  bool ok_;
  bool on_foreign_thread_ = false;
  PyGILState_STATE state_;
};

/// Gives up the GIL for its lifetime. A thread that is in one when the interpreter goes away stays there. Requires GIL.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    WithoutUnwinding([this] { PyEval_RestoreThread(state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

/// True if this thread may run code of the main interpreter now: it holds the GIL or, on free-threaded Python, is
/// attached. PyGILState_Check is used nowhere, because it returns true on every thread once the process has made
/// another interpreter. **GIL not needed.**
bool HoldsGil();

/// Gives Python the name of a thread that Python did not start and whose state is kept. Call it before the thread runs
/// Python code that may ask for the current thread, as logging does. Cheap from the second time on. Requires GIL.
void NameThread();

/// Surround a batch of the Python delivery thread, as BatchGate of delivery/delivery_thread.h.
bool EnterInterpreter();
void LeaveInterpreter();
/// Gives up the GIL until a delivery thread that waits for it has taken it, or for a millisecond. Merely releasing the
/// GIL for a moment would wake the other thread, but this thread would have the GIL back before the other runs. Does so
/// rarely where yet other threads want the GIL. Requires GIL.
void LetBatchIn();
/// Runs at the end of a delivery thread: gives back what Python keeps for the thread. GIL not needed.
void ForgetThread();

/// From now on GilScope is not ok and EnterInterpreter returns false. Blocks until the threads that are inside have
/// left, at most `seconds`. Returns the number of threads still inside. Requires GIL, and gives it up while waiting.
int CloseInterpreter(double seconds);

/// A reference that any thread may drop. Without the GIL the object is kept until a thread with the GIL calls
/// DropGarbage; once the interpreter goes away the object is leaked on purpose.
class SharedRef {
 public:
  SharedRef() = default;
  explicit SharedRef(Ref ref) : object_(ref.release()) {}
  SharedRef(SharedRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  SharedRef& operator=(SharedRef&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~SharedRef();
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

/// Drops the objects that SharedRefs left behind. Requires GIL.
void DropGarbage();

}  // namespace callout::python
