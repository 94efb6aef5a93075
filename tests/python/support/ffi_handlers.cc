// SPDX-License-Identifier: Apache-2.0
//
// Handlers in the style of their users, with XLA's own C++ API: attributes of every kind, stages, state.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// Computes y = a x + b, element by element.
static ffi::Error Affine(float a, int64_t b, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  if (a == 0) return ffi::Error(ffi::ErrorCode::kInvalidArgument, "a must not be zero");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = a * x.typed_data()[i] + static_cast<float>(b);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    affine, Affine,
    ffi::Ffi::Bind().Attr<float>("a").Attr<int64_t>("b").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Computes the sum and the maximum of the elements. An attribute holds the expected number of elements.
static ffi::Error Moments(std::string_view mode, ffi::Span<const int32_t> weights, ffi::Dictionary options, bool negate,
                          ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> sum,
                          ffi::ResultBuffer<ffi::F32> largest) {
  auto scale = options.get<float>("scale");
  if (!scale.has_value()) return scale.error();
  float total = 0, most = -INFINITY;
  for (size_t i = 0; i < x.element_count(); ++i) {
    const float weight = mode == "weighted" ? static_cast<float>(weights[i]) : 1.0F;
    total += weight * x.typed_data()[i];
    most = std::fmax(most, x.typed_data()[i]);
  }
  *sum->typed_data() = (negate ? -1 : 1) * *scale * total;
  *largest->typed_data() = most;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(moments, Moments,
                              ffi::Ffi::Bind()
                                  .Attr<std::string_view>("mode")
                                  .Attr<ffi::Span<const int32_t>>("weights")
                                  .Attr<ffi::Dictionary>("options")
                                  .Attr<bool>("negate")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// Writes the elements in the order in which they lie in memory.
static ffi::Error InMemory(ffi::AnyBuffer x, ffi::ResultBuffer<ffi::F32> y) {
  std::copy_n(static_cast<const float*>(x.untyped_data()), x.element_count(), y->typed_data());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(in_memory, InMemory, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::Buffer<ffi::F32>>());

// Adds 1 to its result, which the caller aliases with the argument.
static ffi::Error AddOne(ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < y->element_count(); ++i) y->typed_data()[i] += 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(add_one, AddOne,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Returns keys with the words of each key reversed, and their sum.
static ffi::Error TurnKeys(ffi::Buffer<ffi::U32> keys, ffi::ResultBuffer<ffi::U32> turned,
                           ffi::ResultBuffer<ffi::U32> sums) {
  const size_t width = static_cast<size_t>(keys.dimensions().back());
  for (size_t i = 0; i < sums->element_count(); ++i) {
    const uint32_t* words = keys.typed_data() + i * width;
    sums->typed_data()[i] = 0;
    for (size_t j = 0; j < width; ++j) {
      turned->typed_data()[i * width + j] = words[width - 1 - j];
      sums->typed_data()[i] += words[j];
    }
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    turn_keys, TurnKeys,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::U32>>().Ret<ffi::Buffer<ffi::U32>>().Ret<ffi::Buffer<ffi::U32>>());

static ffi::Error Add(ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::F32> y, ffi::ResultBuffer<ffi::F32> sum) {
  if (x.element_count() != y.element_count()) return ffi::Error::Internal("x and y differ in size");
  for (size_t i = 0; i < x.element_count(); ++i) sum->typed_data()[i] = x.typed_data()[i] + y.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    add, Add, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Passes its token on, between an argument and a result.
static ffi::Error Pass(ffi::Buffer<ffi::F32> x, ffi::Token, ffi::Result<ffi::Token>, ffi::ResultBuffer<ffi::F32> y) {
  *y->typed_data() = *x.typed_data() + 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    pass, Pass,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Arg<ffi::Token>().Ret<ffi::Token>().Ret<ffi::Buffer<ffi::F32>>());

static std::atomic<int64_t> g_largest_rows{0};
static ffi::Error RowSums(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  const auto rows = x.dimensions()[0], columns = x.dimensions()[1];
  for (int64_t i = 0; i < rows; ++i) {
    float sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += x.typed_data()[i * columns + j];
    y->typed_data()[i] = sum;
  }
  int64_t seen = g_largest_rows;
  while (rows > seen && !g_largest_rows.compare_exchange_weak(seen, rows)) {
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(row_sums, RowSums,
                              ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
// Returns the largest number of rows since the last call with a negative number.
extern "C" int64_t largest_rows_seen(int64_t reset) {
  return reset < 0 ? g_largest_rows.exchange(0) : g_largest_rows.load();
}

// State of an executable: the number of its runs.
struct Count {
  static ffi::TypeId id;
  static ffi::TypeInfo info;
  int64_t runs = 0;
};
ffi::TypeId Count::id = {};
ffi::TypeInfo Count::info = ffi::MakeTypeInfo<Count>();

static ffi::ErrorOr<std::unique_ptr<Count>> MakeCount() { return std::make_unique<Count>(); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(count_instantiate, MakeCount, ffi::Ffi::BindInstantiate());

static ffi::Error CountRun(Count* count, ffi::ResultBuffer<ffi::S32> runs) {
  *runs->typed_data() = static_cast<int32_t>(++count->runs);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(count_execute, CountRun,
                              ffi::Ffi::Bind().Ctx<ffi::State<Count>>().Ret<ffi::Buffer<ffi::S32>>());

extern "C" void* count_type_id() { return &Count::id; }
extern "C" void* count_type_info() { return &Count::info; }

static std::atomic<int64_t> g_noted{0};
static ffi::Error Note(ffi::Buffer<ffi::F32> x) {
  g_noted += static_cast<int64_t>(x.element_count());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(note, Note, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>());
static ffi::Error NoteWith(int64_t, std::string_view, ffi::Buffer<ffi::F32> x) { return Note(x); }
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    note_with, NoteWith,
    ffi::Ffi::Bind().Attr<int64_t>("device_index").Attr<std::string_view>("sharding").Arg<ffi::Buffer<ffi::F32>>());
extern "C" int64_t noted() { return g_noted; }

// An untyped handler, from before typed FFI: untyped pointers, and a string.
extern "C" void legacy_twice(void* out, const void** in) {
  *static_cast<float*>(out) = 2 * *static_cast<const float*>(in[0]);
}
struct XlaCustomCallStatus_;
extern "C" void legacy_opaque(void* out, const void** in, const char*, size_t size, XlaCustomCallStatus_*) {
  *static_cast<float*>(out) = *static_cast<const float*>(in[0]) + static_cast<float>(size);
}
