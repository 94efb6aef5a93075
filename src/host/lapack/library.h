// SPDX-License-Identifier: Apache-2.0
//
// The machine's LAPACK and BLAS, by their Fortran names, and their routines as C++ templates. None of them is needed to
// build.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "callout/status.h"
#include "host/lapack/frame.h"

/// Instantiates `function` for all four element types.
#define CALLOUT_LAPACK_INSTANCES(function)                     \
  template Status function<float>(const Frame&);               \
  template Status function<double>(const Frame&);              \
  template Status function<std::complex<float>>(const Frame&); \
  template Status function<std::complex<double>>(const Frame&);

namespace callout::internal::lapack {

/// Returns the address of `symbol` ("sgetrf_") in the first LAPACK found: the library that the environment variable
/// CALLOUT_LAPACK names, else OpenBLAS, the reference LAPACK or MKL where the dynamic linker finds them. Integers have
/// 32 bits in all of them. Errors: NotFound, with the libraries that were tried or with the symbol. Thread-safe.
Result<void*> FindSymbol(const std::string& symbol);

/// Returns the path of the library, for messages. Errors: as FindSymbol. Thread-safe.
Result<std::string> LibraryPath();

template <typename T>
struct ScalarTraits;
template <>
struct ScalarTraits<float> {
  using Real = float;
  static constexpr char kLetter = 's';
};
template <>
struct ScalarTraits<double> {
  using Real = double;
  static constexpr char kLetter = 'd';
};
template <>
struct ScalarTraits<std::complex<float>> {
  using Real = float;
  static constexpr char kLetter = 'c';
};
template <>
struct ScalarTraits<std::complex<double>> {
  using Real = double;
  static constexpr char kLetter = 'z';
};

template <typename T>
using RealOf = typename ScalarTraits<T>::Real;
template <typename T>
inline constexpr bool kIsComplex = !std::is_same_v<T, RealOf<T>>;

/// The middle of a routine's name, "getrf", as a template argument.
template <size_t kSize>
struct Stem {
  constexpr Stem(const char (&literal)[kSize]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < kSize; ++i) text[i] = literal[i];
  }
  char text[kSize];
};

/// Calls the routine for T: float and "getrf" call "sgetrf_". The symbol is looked up once. Errors: as FindSymbol.
template <typename T, Stem kStem, typename... Arguments>
Status Call(Arguments... arguments) {
  static const auto* const found =
      new Result<void*>(FindSymbol(ScalarTraits<T>::kLetter + std::string(kStem.text) + "_"));
  if (!found->ok()) return found->status();
  reinterpret_cast<void (*)(Arguments...)>(found->value())(arguments...);
  return OkStatus();
}

/// Calls `call(i, work, lwork, info)` first to query the workspace's size, and then for each of `count` matrices.
/// `info`: receives LAPACK's answers; null if the program does not check them, and then the first failure returns
/// Internal.
template <typename T, typename Function>
Status CallEach(const Frame& frame, int64_t count, const Batch<Int>* info, const Function& call) {
  Int query = -1, own = 0;
  T size{};
  CALLOUT_RETURN_IF_ERROR(call(0, &size, &query, &own));
  std::vector<T> work = Workspace(size);
  Int lwork = static_cast<Int>(work.size());
  for (int64_t i = 0; i < count && own == 0; ++i) {
    CALLOUT_RETURN_IF_ERROR(call(i, work.data(), &lwork, info != nullptr ? info->at(i) : &own));
  }
  return own == 0 ? OkStatus() : frame.Refused(own);
}

inline constexpr size_t kOne = 1;  // the length of a flag

}  // namespace callout::internal::lapack
