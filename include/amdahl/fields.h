// How texts of the library name the fields of its configuration, and how a program shows them as its users know them.
//
// A reference stands in backticks: `batch_sizes`, with a value `strategy=ddp`, of another verb `study resume` or
// `links machine=FILE`. Its words have a space between them; a value has neither spaces nor backticks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// A word of a reference: part of a verb's name, or a field with or without a value.
struct FieldWord {
  std::string name;  // lower case with underscores
  std::optional<std::string> value{};
};

/// What users call a reference; empty for one that names nothing they know, whose text then stays as it is. The result
/// is not looked at again. Any thread calls it.
using FieldNamer = std::string (*)(const std::vector<FieldWord>& words);

/// Errors and texts that are made from here on, in all threads, name fields by `namer`; nullptr: as references.
AMDAHL_API void set_field_namer(FieldNamer namer);

/// `text` with each reference replaced by what users call it.
AMDAHL_API std::string named(std::string_view text);
/// One reference, whose values may hold anything.
AMDAHL_API std::string named_reference(const std::vector<FieldWord>& words);

}  // namespace amdahl
