// References to configuration fields in the library's texts, and their translation into a program's own names (for
// example command-line options).
//
// A reference is enclosed in backticks: `batch_sizes`, with a value `strategy=ddp`, of another verb `study resume` or
// `links machine=FILE`. Words are separated by one space; a value contains neither spaces nor backticks.
//
// Example: errors name "--batch-sizes" instead of "`batch_sizes`".
//   amdahl::set_field_namer([](const std::vector<amdahl::FieldWord>& words) {
//     return words[0].name == "batch_sizes" ? std::string("--batch-sizes") : std::string();
//   });
//
// All functions are thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// A word of a reference: part of a verb's name, or a field with an optional value.
struct FieldWord {
  std::string name;  // lower case, digits and underscores
  std::optional<std::string> value{};
};

/// Returns the user's name of a reference; an empty string leaves the reference as it is. The result is not searched
/// for references again. Called by any thread.
using FieldNamer = std::string (*)(const std::vector<FieldWord>& words);

/// Sets the namer for errors and texts that any thread makes from now on; nullptr: references stay as they are.
AMDAHL_API void set_field_namer(FieldNamer namer);

/// `text` with each reference replaced by its user's name.
AMDAHL_API std::string named(std::string_view text);
/// The user's name of one reference, whose values may contain any characters.
AMDAHL_API std::string named_reference(const std::vector<FieldWord>& words);

}  // namespace amdahl
