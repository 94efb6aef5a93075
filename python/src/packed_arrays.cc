// SPDX-License-Identifier: Apache-2.0
#include "packed_arrays.h"

#include <cstring>

#include "callout/elements.h"

namespace nb = nanobind;

namespace callout::python {

PackedLayout::PackedLayout(uint32_t word_bytes, const nb::sequence& parts) : word_bytes_(word_bytes) {
  for (nb::handle item : parts) {
    const nb::handle dtype = item[0];
    Part part{
        DTypeOf(reinterpret_cast<PyArray_Descr*>(dtype.ptr())), nb::cast<uint32_t>(dtype.attr("itemsize")), {}, 1};
    if (part.dtype == DType::kInvalid || IsSubByte(part.dtype) || part.item_bytes > word_bytes) {
      throw nb::type_error("callout: an array of a dtype that has no place in a word");
    }
    for (nb::handle extent : nb::borrow<nb::sequence>(item[1])) {
      part.extents.push_back(nb::cast<int64_t>(extent));
      part.elements *= part.extents.back();
    }
    bytes_ += static_cast<uint64_t>(part.elements) * word_bytes;
    parts_.push_back(std::move(part));
  }
}

PackedArrays::PackedArrays(const PackedLayout& layout, const char* message) {
  const size_t word = layout.word_bytes();
  narrowed_.reserve(layout.parts().size());
  for (const PackedLayout::Part& part : layout.parts()) {
    const auto count = static_cast<size_t>(part.elements);
    const char* data = message;
    if (part.item_bytes < word) {
      std::vector<char>& narrow = narrowed_.emplace_back(count * part.item_bytes);
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(narrow.data() + i * part.item_bytes, message + i * word, part.item_bytes);
      }
      data = narrow.data();
    }
    // The const_cast is safe: the buffer is an operand, which nobody writes.
    buffers_.push_back({static_cast<uint32_t>(part.dtype), static_cast<uint32_t>(part.extents.size()),
                        const_cast<char*>(data), part.extents.data(), count * part.item_bytes});
    message += count * word;
  }
}

}  // namespace callout::python
