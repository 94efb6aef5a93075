// SPDX-License-Identifier: Apache-2.0
//
// Callbacks for test_register.py, in the style of a user.
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "callout/call.h"

namespace {

std::atomic<bool> flag{false};
std::mutex total_mutex;
double running_total = 0;

void Scale(const callout::Call& call) {
  auto x = call.arg<float>(0);
  auto y = call.result<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
}

void WaitForFlag(const callout::Call& call) {
  while (!flag.load()) std::this_thread::yield();
  call.result<float>(0)[0] = call.arg<float>(0)[0];
}

void Where(const callout::Call& call) {
  auto out = call.result<int32_t>(0);
  out[0] = call.device_ordinal();
  out[1] = call.run_id() != 0 ? 1 : 0;
}

void Accumulate(const callout::Call& call) {
  const std::lock_guard lock(total_mutex);
  running_total += call.arg<float>(0)[0];
}

void ThrowsStandard(const callout::Call&) { throw std::runtime_error("std: on purpose"); }
void ThrowsInt(const callout::Call&) { throw 3; }
void WrongType(const callout::Call& call) { (void)call.arg<int64_t>(0); }
void WrongIndex(const callout::Call& call) { (void)call.arg<float>(3); }

}  // namespace

CALLOUT_DEFINE_CALLBACK(scale, Scale);
CALLOUT_DEFINE_CALLBACK(wait_for_flag, WaitForFlag);
CALLOUT_DEFINE_CALLBACK(where, Where);
CALLOUT_DEFINE_CALLBACK(accumulate, Accumulate);
CALLOUT_DEFINE_CALLBACK(throws_standard, ThrowsStandard);
CALLOUT_DEFINE_CALLBACK(throws_int, ThrowsInt);
CALLOUT_DEFINE_CALLBACK(wrong_type, WrongType);
CALLOUT_DEFINE_CALLBACK(wrong_index, WrongIndex);

extern "C" {

int32_t add_columns(void** pointers, const int64_t* dims) {
  const auto* x = static_cast<const float*>(pointers[0]);
  auto* y = static_cast<float*>(pointers[1]);
  for (int64_t i = 0; i < dims[0]; ++i) {
    y[i] = 0;
    for (int64_t j = 0; j < dims[1]; ++j) y[i] += x[i * dims[1] + j];
  }
  return dims[2] == dims[0] ? 0 : 1;
}

int32_t plain_returns_7(void**, const int64_t*) { return 7; }
int32_t plain_throws_int(void**, const int64_t*) { throw 3; }

void set_flag() { flag.store(true); }

double total() {
  const std::lock_guard lock(total_mutex);
  return running_total;
}

int32_t register_through_table(const callout_api* api) {
  char error[256];
  return api->register_function("from.table", &scale_callout_record, error, sizeof(error));
}
}
