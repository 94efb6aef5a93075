// SPDX-License-Identifier: Apache-2.0
//
// The text of `id_print`: arrays as NumPy prints them, and trees of them as JAX's pretty printer lays them out.
#include "module_bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "array_buffers.h"
#include "callout/elements.h"
#include "core/frame/elements.h"
#include "python_text.h"
#include "sinks/text/numpy_text.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::LayoutPiece;

class ValueLayout {
 public:
  explicit ValueLayout(const std::vector<std::tuple<int, std::string, size_t>>& pieces) {
    for (const auto& [kind, text, number] : pieces) {
      if (kind < 0 || kind > static_cast<int>(LayoutPiece::Kind::kClose)) throw nb::value_error("no kind of piece");
      pieces_.push_back({static_cast<LayoutPiece::Kind>(kind), text, number});
      if (pieces_.back().kind == LayoutPiece::Kind::kLeaf) num_leaves_ = std::max(num_leaves_, number + 1);
    }
  }

  std::string Join(const std::vector<std::string>& leaves) const {
    if (leaves.size() < num_leaves_) throw nb::value_error("not a text for every leaf");
    return internal::LayOut(pieces_, leaves);
  }

  // Returns None if an array must be formatted by NumPy.
  std::optional<std::string> Text(const nb::sequence& arrays, int64_t threshold, float float32_exponents_from) const {
    const ArrayBuffers buffers(arrays);
    std::vector<std::string> leaves(buffers.size());
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!internal::AppendNumpyText(buffers.data()[i], {threshold, float32_exponents_from}, leaves[i])) {
        return std::nullopt;
      }
    }
    return Join(leaves);
  }

 private:
  std::vector<LayoutPiece> pieces_;
  size_t num_leaves_ = 0;
};

}  // namespace

void BindText(nb::module_& m) {
  nb::dict names, bits;
  for (const internal::DTypeRow& row : internal::kDTypeRows) {
    if (!row.numpy_name.empty()) names[nb::str(row.short_name.data())] = nb::str(row.numpy_name.data());
    if (IsSubByte(row.dtype)) bits[nb::str(row.numpy_name.data())] = row.bits;
  }
  m.attr("DTYPE_NAMES") = names;
  m.attr("SUB_BYTE_BITS") = bits;
  nb::class_<ValueLayout>(m, "ValueLayout", "(kind, text, number) pieces, see the core's numpy_text.h.")
      .def(nb::init<const std::vector<std::tuple<int, std::string, size_t>>&>(), nb::arg("pieces"))
      .def("join", &ValueLayout::Join, nb::arg("leaves"), "The text, from those of the leaves.")
      .def("text", &ValueLayout::Text, nb::arg("arrays"), nb::arg("threshold"), nb::arg("float32_exponents_from"),
           "The text, from the leaves' arrays; None if one of them is left to NumPy.");
}

}  // namespace callout::python
