// SPDX-License-Identifier: Apache-2.0
#include "gil.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/fork_mutex.h"
#include "python_text.h"

namespace callout::python {
namespace {

using std::chrono::steady_clock;

// For how long a thread that gave up the GIL waits for a delivery thread to take it: some wake-ups on a busy machine.
[[maybe_unused]] constexpr std::chrono::milliseconds kMostForBatch(1);
// A batch takes at most 2 ms. A thread that gets the GIL back later than this shares it with other Python threads as
// well. LetBatchIn then rests kRest times as long as the wait took, at most kMostRest, and so takes a fiftieth of the
// time.
[[maybe_unused]] constexpr std::chrono::milliseconds kUsualBatch(3);
[[maybe_unused]] constexpr int kRest = 50;
[[maybe_unused]] constexpr std::chrono::seconds kMostRest(1);

// Every entry increments g_inside and then reads g_closed; CloseInterpreter sets g_closed and then reads g_inside.
// Sequential consistency makes one of the two see the other.
std::atomic<int> g_inside{0};
std::atomic<bool> g_closed{false};

// Release pairs with CloseInterpreter's read of the count, and publishes the work done inside.
void Leave() { g_inside.fetch_sub(1, std::memory_order_release); }

bool Enter() {
  g_inside.fetch_add(1, std::memory_order_seq_cst);
  if (!g_closed.load(std::memory_order_seq_cst)) [[likely]]
    return true;
  Leave();
  return false;
}

thread_local bool t_foreign = false;  // this thread's Python thread state was made by TakeGil and is kept

PyGILState_STATE EnsureGil() {
  return WithoutUnwinding([] { return PyGILState_Ensure(); });
}

PyGILState_STATE TakeGil() {
  const PyGILState_STATE state = EnsureGil();
  // The first PyGILState_Ensure of a foreign thread makes a thread state, which the matching Release would delete. One
  // extra Ensure keeps the state for the thread's life: XLA's threads live as long as the process, and Callout's
  // threads call ForgetThread. The counter is 1 only for a new state: a state that Python or jaxlib (for a callback
  // around this one) made before has a count of at least two now.
  if (!t_foreign && PyThreadState_Get()->gilstate_counter == 1) [[unlikely]] {
    t_foreign = true;
    PyGILState_Ensure();
  }
  return state;
}

struct Garbage {
  internal::ForkMutex mutex;
  std::vector<PyObject*> objects;
  std::atomic<bool> any{false};
};

Garbage& GetGarbage() {
  static Garbage* const garbage = new Garbage;  // leaked: references are dropped during static destruction
  return *garbage;
}

// The number of delivery threads that wait for the GIL, as a hint.
std::atomic<int> g_batches_waiting{0};
// Guarded by the GIL: the number of threads that gave up the GIL for a delivery thread, and the earliest time of the
// next such gift.
int g_givers = 0;
[[maybe_unused]] steady_clock::time_point g_next_gift;
std::counting_semaphore<> g_taken{0};  // one count for each giver

void TakeGilForBatch(PyGILState_STATE& state) {
  g_batches_waiting.fetch_add(1, std::memory_order_relaxed);
  state = TakeGil();
  g_batches_waiting.fetch_sub(1, std::memory_order_relaxed);
  if (g_givers > 0) g_taken.release(std::exchange(g_givers, 0));
}

thread_local PyGILState_STATE t_batch_state;
// The thread's object in Python; null while Python does not know the thread by its name. This thread owns the
// reference. After a fork, the child never drops the reference, see name_thread.
thread_local PyObject* t_named = nullptr;

// Names the thread in Python, which calls threads that it did not start "Dummy-1", in log records as well. Requires
// GIL.
void TellPythonName(const char* name) {
  const Ref module(PyImport_ImportModule("callout._base.loggers"));
  const Ref text = name == nullptr ? Ref::Borrow(Py_None) : StrOf(name);
  Ref kept(module && text ? PyObject_CallMethod(module.get(), "name_thread", "O", text.get()) : nullptr);
  if (!kept) PyErr_Clear();  // a failure to name the thread must not fail a tap
  Py_XDECREF(std::exchange(t_named, name == nullptr ? nullptr : kept.release()));
}

}  // namespace

bool HoldsGil() {
#if PY_VERSION_HEX >= 0x030D0000
  PyThreadState* current = PyThreadState_GetUnchecked();
#else
  PyThreadState* current = _PyThreadState_UncheckedGet();
#endif
#if PY_VERSION_HEX < 0x030C0000
  // Before Python 3.12 the current state is one variable of the process, whose value is most often another thread's.
  if (current != PyGILState_GetThisThreadState()) return false;
#endif
  return current != nullptr && PyThreadState_GetInterpreter(current) == PyInterpreterState_Main();
}

GilScope::GilScope(ThreadState thread_state) : ok_(Enter()) {
  if (!ok_) return;
  state_ = thread_state == ThreadState::kKeep ? TakeGil() : EnsureGil();
  on_foreign_thread_ = t_foreign;
}

GilScope::~GilScope() {
  if (!ok_) return;
  PyGILState_Release(state_);
  Leave();
}

void NameThread() {
  if (t_named != nullptr || !t_foreign) [[likely]]
    return;
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  TellPythonName(name);
}

bool EnterInterpreter() {
  if (!Enter()) return false;
  TakeGilForBatch(t_batch_state);
  NameThread();
  DropGarbage();
  return true;
}

void LetBatchIn() {
#ifndef Py_GIL_DISABLED
  if (g_batches_waiting.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  const steady_clock::time_point begin = steady_clock::now();
  if (begin < g_next_gift) return;
  ++g_givers;
  bool was_taken;
  {
    const GilRelease release;
    was_taken = g_taken.try_acquire_for(kMostForBatch);
  }
  // No delivery thread has taken the GIL, because others were faster: this thread is no giver any more.
  if (!was_taken && !g_taken.try_acquire()) --g_givers;
  const steady_clock::time_point end = steady_clock::now();
  if (end - begin > kUsualBatch) g_next_gift = end + std::min<steady_clock::duration>(kRest * (end - begin), kMostRest);
#endif
}

void LeaveInterpreter() {
  PyGILState_Release(t_batch_state);
  Leave();
}

void ForgetThread() {
  if (!t_foreign || !Enter()) return;
  const PyGILState_STATE state = EnsureGil();
  if (t_named != nullptr) TellPythonName(nullptr);
  PyGILState_Release(PyGILState_LOCKED);  // the extra reference of TakeGil
  PyGILState_Release(state);              // the last reference: deletes the thread state
  t_foreign = false;
  Leave();
}

int CloseInterpreter(double seconds) {
  g_closed.store(true, std::memory_order_seq_cst);
  DropGarbage();
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  {
    const GilRelease release;
    while (g_inside.load(std::memory_order_seq_cst) > 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return g_inside.load(std::memory_order_seq_cst);
}

SharedRef::~SharedRef() {
  // Enter first: a finalised interpreter must not be asked for anything.
  if (object_ == nullptr || !Enter()) return;  // leaked
  if (HoldsGil()) {
    Leave();  // holding the GIL keeps the interpreter alive, and destructors may take long
    Py_DECREF(object_);
    return;
  }
  // Waiting for the GIL here could deadlock: XLA destroys executables under its own locks.
  Garbage& garbage = GetGarbage();
  {
    const internal::MutexLock lock(garbage.mutex);
    garbage.objects.push_back(object_);
    garbage.any.store(true, std::memory_order_relaxed);  // relaxed: the lock publishes the objects
  }
  // A failure is harmless: the list of pending calls may be full and, before Python 3.12, may belong to another
  // interpreter. The next call of DropGarbage then drops the objects.
  (void)Py_AddPendingCall(
      [](void*) {
        if (HoldsGil()) DropGarbage();
        return 0;
      },
      nullptr);
  Leave();
}

void DropGarbage() {
  Garbage& garbage = GetGarbage();
  if (!garbage.any.load(std::memory_order_relaxed)) return;  // a miss is harmless: the next call drops later objects
  std::vector<PyObject*> objects;
  {
    const internal::MutexLock lock(garbage.mutex);
    objects.swap(garbage.objects);
    garbage.any.store(false, std::memory_order_relaxed);
  }
  for (PyObject* object : objects) Py_DECREF(object);  // outside the lock: destructors run here
}

}  // namespace callout::python
