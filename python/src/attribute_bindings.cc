// SPDX-License-Identifier: Apache-2.0
//
// Gives Python the tables of the targets' attributes and of the kinds of callbacks that a program can carry in a name.
#include "module_bindings.h"

#include <nanobind/stl/string_view.h>

#include "core/attributes/attribute_rows.h"
#include "python_text.h"
#include "sinks/catalog/callback_kinds.h"

namespace nb = nanobind;

namespace callout::python {
namespace {

using internal::AttributeDescription;
using internal::AttributeType;

const char* NameOf(AttributeType type) {
  switch (type) {
    case AttributeType::kString:
      return "string";
    case AttributeType::kInteger:
      return "s64";
    case AttributeType::kIntegers:
      return "s64[]";
    case AttributeType::kStrings:
      return "string[]";
    case AttributeType::kRest:
      return "rest";
    case AttributeType::kDictionary:
      break;
  }
  return "dictionary";
}

nb::list Rows(std::span<const AttributeDescription> descriptions) {
  nb::list rows;
  for (const AttributeDescription& description : descriptions) {
    const internal::AttributeTerms& terms = description.terms;
    nb::list choices;
    for (const std::string_view choice : terms.choices) choices.append(choice);
    nb::dict row;
    row["name"] = description.name;
    row["type"] = NameOf(description.type);
    row["is_required"] = description.is_required;
    row["fallback"] = description.fallback;
    row["least"] = terms.least;
    row["most"] = terms.most;
    row["count"] = terms.count;
    row["group"] = terms.group;
    row["most_bytes"] = terms.most_bytes;
    row["choices"] = nb::tuple(choices);
    row["absent"] = terms.absent;
    row["since"] = terms.since;
    row["meaning"] = description.meaning;
    row["entries"] = Rows(description.entries);
    row["has_free_entries"] = description.has_free_entries;
    rows.append(row);
  }
  return rows;
}

nb::dict AllAttributes() {
  nb::dict all;
  for (const internal::TargetAttributes& target : internal::AllTargetAttributes()) {
    all[nb::cast(target.target)] = Rows(target.attributes);
  }
  return all;
}

nb::dict AllKinds() {
  nb::dict all;
  for (const internal::ProgramKind& kind : internal::ProgramKinds()) {
    all[nb::cast(std::string(kind.kind) + ":")] = Rows(kind.fields);
  }
  return all;
}

}  // namespace

void BindAttributes(nb::module_& m) {
  m.def("target_attributes", &AllAttributes, "The rows of each FFI target's table of attributes.");
  m.def("program_kinds", &AllKinds,
        "The fields of names that say what their callback does, by how they begin: \"check:\". None without a table.");
}

}  // namespace callout::python
