// SPDX-License-Identifier: Apache-2.0
#define CALLOUT_IMPORT_NUMPY
#include "arrays.h"

#include <cmath>
#include <cstring>
#include <span>

#include "callout/elements.h"
#include "core/base/block_pool.h"
#include "core/base/cat.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"
#include "python_text.h"

namespace callout::python {
namespace {

using internal::ElementCount;
using internal::RowOf;
using internal::ShapeString;

// Copies of at least this size lie in pooled blocks: malloc would map and fault in fresh pages for each of them.
constexpr uint64_t kPooledBytes = 32 << 10;

struct DTypeEntry {
  PyArray_Descr* descr = nullptr;
  PyTypeObject* scalar_type = nullptr;
};
DTypeEntry g_dtypes[kDTypeLimit];

PyObject* NewArray(const callout_buffer& buffer, void* data, int flags) {
  PyArray_Descr* descr = DescrOf(static_cast<DType>(buffer.dtype));
  if (descr == nullptr) {
    PyErr_Format(PyExc_TypeError, "callout: no NumPy dtype for XLA element type %u; ml_dtypes may be too old",
                 buffer.dtype);
    return nullptr;
  }
  Py_INCREF(descr);  // PyArray_NewFromDescr steals a reference
  return PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(buffer.rank),
                              const_cast<npy_intp*>(reinterpret_cast<const npy_intp*>(buffer.dims)), nullptr, data,
                              flags, nullptr);
}

void CopyElements(const callout_buffer& buffer, void* out) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  if (IsSubByte(dtype)) {
    Unpack(dtype, buffer.data, ElementCount(buffer), static_cast<uint8_t*>(out), HighBits::kZero);
  } else if (buffer.size_bytes > 0) {
    std::memcpy(out, buffer.data, buffer.size_bytes);
  }
}

void FreeCapsule(PyObject* capsule) { internal::FreeBlock(PyCapsule_GetPointer(capsule, nullptr)); }

// Takes ownership of `block`.
PyObject* ArrayOverBlock(const callout_buffer& buffer, void* block) {
  Ref capsule(PyCapsule_New(block, nullptr, &FreeCapsule));
  if (!capsule) {
    internal::FreeBlock(block);
    return nullptr;
  }
  Ref array(NewArray(buffer, block, NPY_ARRAY_CARRAY));
  if (!array || PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), capsule.release()) < 0)
    return nullptr;
  return array.release();
}

bool SameShape(PyArrayObject* array, const callout_buffer& buffer) {
  return static_cast<uint32_t>(PyArray_NDIM(array)) == buffer.rank &&
         (buffer.rank == 0 || std::memcmp(PyArray_DIMS(array), buffer.dims, buffer.rank * sizeof(int64_t)) == 0);
}

bool IsNarrowed(DType from, DType to) {
  return (from == DType::kFloat64 && to == DType::kFloat32) || (from == DType::kInt64 && to == DType::kInt32) ||
         (from == DType::kUint64 && to == DType::kUint32) || (from == DType::kComplex128 && to == DType::kComplex64);
}

std::string DescribeArray(PyArrayObject* array) {
  const DType dtype = DTypeOf(PyArray_DESCR(array));
  std::string text;
  if (dtype == DType::kInvalid) {
    Ref str(PyObject_Str(reinterpret_cast<PyObject*>(PyArray_DESCR(array))));
    text = (str ? Utf8Of(str.get()) : std::nullopt).value_or("an unknown dtype");
  } else {
    text = ShortName(dtype);
  }
  const std::span shape(PyArray_DIMS(array), static_cast<size_t>(PyArray_NDIM(array)));
  return internal::Cat(text, "[", internal::Join(shape, ","), "]");
}

// True if a result of the dtype of `array` may be stored where `expected` is wanted.
bool DTypeFits(PyArrayObject* array, DType expected, Canonicalize canonicalize) {
  const DType dtype = DTypeOf(PyArray_DESCR(array));
  return dtype == expected || (canonicalize == Canonicalize::k64To32 && IsNarrowed(dtype, expected));
}

std::string Mismatch(const callout_buffer& expected, PyArrayObject* got) {
  return "expected " + ShapeString(expected) + ", got " + DescribeArray(got);
}

// Writes an array whose shape is already checked into `result`. Returns false with a Python error.
bool StoreArray(PyArrayObject* array, const callout_buffer& result) {
  const auto dtype = static_cast<DType>(result.dtype);
  if (!IsSubByte(dtype)) {
    Ref target(NewArray(result, result.data, NPY_ARRAY_CARRAY));
    return target && PyArray_CopyInto(reinterpret_cast<PyArrayObject*>(target.get()), array) == 0;
  }
  Ref dense(PyArray_FromArray(array, nullptr, NPY_ARRAY_IN_ARRAY));
  if (!dense) return false;
  Pack(dtype, static_cast<const uint8_t*>(PyArray_DATA(reinterpret_cast<PyArrayObject*>(dense.get()))),
       ElementCount(result), result.data);
  return true;
}

// Returns false if the two values differ, or with a Python error.
bool SameValues(PyObject* a, PyObject* b) {
  Ref equal(PyObject_RichCompare(a, b, Py_EQ));
  if (equal && !PyArray_Check(equal.get())) equal = Ref(PyArray_FROM_O(equal.get()));
  if (!equal) return false;
  const Ref all(PyArray_All(reinterpret_cast<PyArrayObject*>(equal.get()), NPY_RAVEL_AXIS, nullptr));
  return all && PyObject_IsTrue(all.get()) == 1;
}

// Each kind includes all kinds before it.
enum class NumberKind { kBool, kInteger, kReal, kComplex };

NumberKind NumberKindOf(DType dtype) {
  const internal::DTypeRow& row = RowOf(dtype);
  if (row.kind == DTypeKind::kBool) return NumberKind::kBool;
  if (row.is_integer()) return NumberKind::kInteger;
  return row.kind == DTypeKind::kComplex ? NumberKind::kComplex : NumberKind::kReal;
}

bool IsPythonNumber(PyObject* value) {
  return PyFloat_CheckExact(value) || PyLong_CheckExact(value) || PyBool_Check(value) || PyComplex_CheckExact(value);
}

NumberKind NumberKindOf(PyObject* number) {
  if (PyBool_Check(number)) return NumberKind::kBool;
  if (PyLong_Check(number)) return NumberKind::kInteger;
  return PyFloat_Check(number) ? NumberKind::kReal : NumberKind::kComplex;
}

bool IntegerFits(PyObject* integer, DType dtype) {
  const int bits = BitWidth(dtype);
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(integer, &overflow);
  if (RowOf(dtype).kind == DTypeKind::kSigned) {
    const long long limit = 1LL << (bits - 1 < 62 ? bits - 1 : 62);
    return overflow == 0 && (bits == 64 || (number >= -limit && number < limit));
  }
  if (bits < 64) return overflow == 0 && number >= 0 && number < 1LL << bits;
  if (overflow <= 0) return overflow == 0 && number >= 0;
  (void)PyLong_AsUnsignedLongLong(integer);
  const bool fits = PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return fits;
}

// Floats are rounded, and overflow to an infinity where the dtype has one. In a dtype without infinities an overflow
// must not become another number, and in a dtype without NaN a NaN must not become a number.
bool RealSurvived(PyObject* real, const callout_buffer& result) {
  const double number = PyFloat_AsDouble(real);
  double stored = 0;
  if (!internal::ReadDoubles(result, 0, 1, &stored).ok()) return false;
  if (std::isnan(number) || std::isnan(stored)) return std::isnan(number) && std::isnan(stored);
  if (std::isinf(number)) return number == stored;
  const internal::SmallFloatFormat& format = RowOf(static_cast<DType>(result.dtype)).format;
  if (format.specials != internal::FloatSpecials::kAllNumbers) return true;
  // A number overflows from the largest finite number plus half a step, where rounding would go up.
  const int exponent = (1 << format.exponent_bits) - 1 - format.bias;
  return std::abs(number) < std::ldexp(2 - std::ldexp(1, -format.mantissa_bits - 1), exponent);
}

// Writes a Python number as the one element of `result`. Returns what StoreResult returns.
std::string StoreNumber(PyObject* value, const callout_buffer& result) {
  const auto dtype = static_cast<DType>(result.dtype);
  const NumberKind kind = NumberKindOf(dtype);
  const std::string out_of_range = "a value is out of the range of " + std::string(ShortName(dtype));
  if (kind == NumberKind::kInteger && PyLong_Check(value) && !IntegerFits(value, dtype)) return out_of_range;
  Ref array(PyArray_FROM_O(value));
  const bool huge = array && PyArray_TYPE(reinterpret_cast<PyArrayObject*>(array.get())) == NPY_OBJECT;
  if (huge && kind >= NumberKind::kReal) {
    const Ref real(PyNumber_Float(value));
    array = Ref(real ? PyArray_FROM_O(real.get()) : nullptr);
  }
  if (!array && PyErr_ExceptionMatches(PyExc_OverflowError) != 0) {
    PyErr_Clear();
    return out_of_range;
  }
  if (!array) return "";
  if (NumberKindOf(value) > kind) return Mismatch(result, reinterpret_cast<PyArrayObject*>(array.get()));
  PyArray_Descr* descr = DescrOf(dtype);
  Py_INCREF(descr);
  const Ref cast(PyArray_CastToType(reinterpret_cast<PyArrayObject*>(array.get()), descr, 0));
  if (!cast || !StoreArray(reinterpret_cast<PyArrayObject*>(cast.get()), result)) return "";
  return kind == NumberKind::kReal && !RealSurvived(value, result) ? out_of_range : "";
}

// Handles the two results that nearly every callback returns: the exact array, or a NumPy scalar of the exact type.
bool StoreFast(PyObject* value, const callout_buffer& result) {
  const auto dtype = static_cast<DType>(result.dtype);
  const DTypeEntry& entry = g_dtypes[result.dtype];
  if (IsSubByte(dtype)) return false;
  if (PyArray_CheckExact(value)) {
    auto* array = reinterpret_cast<PyArrayObject*>(value);
    if (PyArray_DESCR(array) != entry.descr || !PyArray_IS_C_CONTIGUOUS(array) || !SameShape(array, result))
      return false;
    // The copy is a memmove, because the function may return an array over the result's own memory.
    if (result.size_bytes > 0) std::memmove(result.data, PyArray_DATA(array), result.size_bytes);
    return true;
  }
  if (result.rank == 0 && Py_TYPE(value) == entry.scalar_type) {
    PyArray_ScalarAsCtype(value, result.data);
    return true;
  }
  return false;
}

}  // namespace

bool InitArrays() {
  if (_import_array() < 0) return false;
  Ref ml_dtypes(PyImport_ImportModule("ml_dtypes"));
  if (!ml_dtypes) PyErr_Clear();
  for (uint32_t i = 0; i < kDTypeLimit; ++i) {
    const std::string name(NumpyName(static_cast<DType>(i)));
    if (name.empty()) continue;
    Ref type(ml_dtypes ? PyObject_GetAttrString(ml_dtypes.get(), name.c_str()) : nullptr);
    PyErr_Clear();
    if (!type) type = StrOf(name);
    PyArray_Descr* descr = nullptr;
    if (PyArray_DescrConverter(type.get(), &descr) == 0) {
      PyErr_Clear();
      continue;
    }
    g_dtypes[i] = {descr, descr->typeobj};  // never released
  }
  return true;
}

PyArray_Descr* DescrOf(DType dtype) {
  const auto number = static_cast<uint32_t>(dtype);
  return number < kDTypeLimit ? g_dtypes[number].descr : nullptr;
}

DType DTypeOf(PyArray_Descr* descr) {
  for (uint32_t i = 0; i < kDTypeLimit; ++i) {
    PyArray_Descr* known = g_dtypes[i].descr;
    if (known == descr) return static_cast<DType>(i);
  }
  for (uint32_t i = 0; i < kDTypeLimit; ++i) {
    PyArray_Descr* known = g_dtypes[i].descr;
    if (known != nullptr && PyArray_EquivTypes(known, descr) != 0) return static_cast<DType>(i);
  }
  return DType::kInvalid;
}

PyObject* CopyToArray(const callout_buffer& buffer) {
  if (buffer.size_bytes >= kPooledBytes) {
    const bool sub_byte = IsSubByte(static_cast<DType>(buffer.dtype));
    const size_t bytes = sub_byte ? static_cast<size_t>(ElementCount(buffer)) : buffer.size_bytes;
    void* block = internal::AllocateBlock(bytes);
    if (block == nullptr) {
      PyErr_Format(PyExc_MemoryError, "callout: out of memory: cannot allocate %zu bytes for a copy of an array",
                   bytes);
      return nullptr;
    }
    CopyElements(buffer, block);
    return ArrayOverBlock(buffer, block);
  }
  PyObject* array = NewArray(buffer, nullptr, 0);
  if (array != nullptr) CopyElements(buffer, PyArray_DATA(reinterpret_cast<PyArrayObject*>(array)));
  return array;
}

PyObject* AdoptAsArray(const callout_buffer& buffer, void** block) {
  if (*block == nullptr || IsSubByte(static_cast<DType>(buffer.dtype))) return CopyToArray(buffer);
  return ArrayOverBlock(buffer, std::exchange(*block, nullptr));
}

PyObject* ViewAsArray(const callout_buffer& buffer) {
  if (IsSubByte(static_cast<DType>(buffer.dtype)) || buffer.data == nullptr) return CopyToArray(buffer);
  return NewArray(buffer, buffer.data, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED);
}

PyObject* WriteableViewAsArray(const callout_buffer& buffer) {
  return buffer.data == nullptr ? CopyToArray(buffer) : NewArray(buffer, buffer.data, NPY_ARRAY_CARRAY);
}

std::string StoreResult(PyObject* value, const callout_buffer& result, Canonicalize canonicalize) {
  if (StoreFast(value, result)) [[likely]]
    return "";
  const auto dtype = static_cast<DType>(result.dtype);
  if (value == Py_None) return "expected " + ShapeString(result) + ", got None: did the function forget to return it?";
  if (result.rank == 0 && IsPythonNumber(value)) return StoreNumber(value, result);
  Ref converted(PyArray_FROM_O(value));
  if (!converted) return "";
  auto* array = reinterpret_cast<PyArrayObject*>(converted.get());
  if (!SameShape(array, result) || !DTypeFits(array, dtype, canonicalize)) return Mismatch(result, array);
  if (DTypeOf(PyArray_DESCR(array)) != dtype) {
    PyArray_Descr* descr = DescrOf(dtype);
    Py_INCREF(descr);
    Ref cast(PyArray_CastToType(array, descr, 0));
    if (!cast) return "";
    if (PyTypeNum_ISINTEGER(descr->type_num) && !SameValues(converted.get(), cast.get())) {
      return PyErr_Occurred() != nullptr ? "" : "a value is out of the range of " + std::string(ShortName(dtype));
    }
    converted = std::move(cast);
    array = reinterpret_cast<PyArrayObject*>(converted.get());
  }
  (void)StoreArray(array, result);
  return "";
}

}  // namespace callout::python
