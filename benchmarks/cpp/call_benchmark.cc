// SPDX-License-Identifier: Apache-2.0
//
// Measures a call without XLA: decoding a call frame's buffers, and invoking a native function with them.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <span>

#include "callout/call.h"
#include "core/callbacks/in_flight.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/native_function.h"
#include "core/frame/call_frame.h"

namespace callout::internal {
namespace {

void Copy(const Call& call) { call.result<float>(0)[0] = call.arg<float>(0)[0]; }
CALLOUT_DEFINE_CALLBACK(bench_copy, Copy);

// A call frame with one scalar operand and one scalar result, as XLA passes it.
class Frame {
 public:
  Frame() {
    for (XLA_FFI_Buffer* buffer : {&arg_, &ret_}) {
      *buffer = {};
      buffer->struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
      buffer->dtype = XLA_FFI_DataType_F32;
    }
    arg_.data = &in_;
    ret_.data = &out_;
    args_ = {XLA_FFI_Args_STRUCT_SIZE, nullptr, 1, nullptr, arg_pointers_};
    rets_ = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, 1, nullptr, ret_pointers_};
  }

  callout_call Decode() {
    callout_call call = {};
    call.struct_size = sizeof(call);
    std::span<const callout_buffer> args, results;
    if (!DecodeArgs(args_, decoded_arg_, args).ok() || !DecodeRets(rets_, decoded_ret_, results).ok()) std::abort();
    call.num_args = static_cast<uint32_t>(args.size());
    call.num_results = static_cast<uint32_t>(results.size());
    call.args = args.data();
    call.results = results.data();
    call.set_error = [](void*, int32_t, const char*, size_t) {};
    return call;
  }

 private:
  float in_ = 1.0F, out_ = 0.0F;
  XLA_FFI_Buffer arg_, ret_;
  void* arg_pointers_[1] = {&arg_};
  void* ret_pointers_[1] = {&ret_};
  XLA_FFI_Args args_;
  XLA_FFI_Rets rets_;
  callout_buffer decoded_arg_[1];
  callout_buffer decoded_ret_[1];
};

void Decode(benchmark::State& state) {
  Frame frame;
  for (auto _ : state) {
    callout_call call = frame.Decode();
    benchmark::DoNotOptimize(call);
  }
}

void MarkInFlight(benchmark::State& state) {
  for (auto _ : state) {
    const InFlightScope scope(Activity::kCall, 1, 0, 1);
    benchmark::ClobberMemory();
  }
}

void DecodeAndInvoke(benchmark::State& state) {
  auto callback = MakeNativeFunction("copy", bench_copy_callout_record);
  if (!callback.ok()) return state.SkipWithError("no function");
  Frame frame;
  for (auto _ : state) {
    const callout_call call = frame.Decode();
    if (!Invoke(**callback, call).ok()) state.SkipWithError("the call failed");
  }
}

void FunctionAlone(benchmark::State& state) {
  Frame frame;
  const callout_call call = frame.Decode();
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench_copy_callout_call(&call));
    benchmark::ClobberMemory();
  }
}

BENCHMARK(FunctionAlone);
BENCHMARK(Decode);
BENCHMARK(MarkInFlight);
BENCHMARK(DecodeAndInvoke);

}  // namespace
}  // namespace callout::internal
