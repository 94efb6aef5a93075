// SPDX-License-Identifier: Apache-2.0
//
// Threads that are not Python's, and the interpreter: getting the GIL cheaply, not at all once the interpreter goes
// away, and dropping references from anywhere.
#pragma once

#include "python_api.h"
#include "unwinding.h"

namespace callout::python {

/// What becomes of the thread state of a thread that is not Python's.
enum class ThreadState {
  kKeep,  ///< It stays as long as the thread: the next time costs 0.1 us instead of 0.6. For threads that stay, too.
  kDrop,  ///< It goes with the scope, and with scopes inside. For threads that may end at any time.
};

/// Holds the GIL for its lifetime, on any thread. Check ok(): false once the interpreter is going away. Nests.
class GilScope {
 public:
  explicit GilScope(ThreadState thread_state = ThreadState::kKeep);
  ~GilScope();
  GilScope(const GilScope&) = delete;
  GilScope& operator=(const GilScope&) = delete;
  bool ok() const { return ok_; }
  /// True if the thread is not Python's: one of XLA's pool, which runs what was dispatched asynchronously.
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

/// True if this thread may run code of the main interpreter now: it holds the GIL, or is attached where there is none.
/// PyGILState_Check, which says so of every thread once the process has made another interpreter, is used nowhere.
/// **GIL not needed.**
bool HoldsGil();

/// Has Python know a thread that is not its own, and keeps its state, by its name: before the thread runs Python code
/// that may ask for the current thread, as logging does. Cheap if it was done. Requires GIL.
void NameThread();

/// Around a batch of the Python delivery thread; BatchGate of delivery/delivery_thread.h.
bool EnterInterpreter();
void LeaveInterpreter();
/// Gives up the GIL until a delivery thread that waits for it has it, or for a millisecond. Who lets go of it for a
/// moment only pays for a wake, and has it back before the other thread runs. Seldom does it where yet other threads
/// want the GIL. Requires GIL.
void LetBatchIn();
/// At the end of that thread: gives back what Python keeps for it. GIL not needed.
void ForgetThread();

/// From now on GilScope is not ok and EnterInterpreter false; waits up to `seconds` for threads that are inside.
/// Returns how many still are. Requires GIL, which it gives up while it waits.
int CloseInterpreter(double seconds);

/// A reference that any thread may drop. Without the GIL the object is kept until somebody who holds it comes by
/// (DropGarbage); once the interpreter goes away it is leaked on purpose.
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

/// Drops what SharedRefs left behind. Requires GIL.
void DropGarbage();

}  // namespace callout::python
