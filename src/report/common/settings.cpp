#include "report/common/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "amdahl/error.h"
#include "amdahl/plan.h"
#include "base/number_text.h"

namespace amdahl {
namespace {

constexpr size_t kLongest = 60;  // characters of a value or name from a file

/// Axes whose value says what it is, or that read better the other way round; {} is the value.
struct Phrase {
  std::string_view axis;
  const char *text, *text_of_one;
};
constexpr Phrase kPhrases[] = {{"backend", "{}", "{}"},
                               {"bytes", "{}", "{}"},
                               {"collective", "{}", "{}"},
                               {"destination", "to {}", "to {}"},
                               {"devices", "{} devices", "{} device"},
                               {"dtype", "{}", "{}"},
                               {"launch", "{}", "{}"},
                               {"math", "{}", "{}"},
                               {"mode", "{}", "{}"},
                               {"model", "{}", "{}"},
                               {"num_parameters", "{} parameters", "{} parameter"},
                               {"op", "{}", "{}"},
                               {"optimizer", "{}", "{}"},
                               {"scaling", "{} scaling", "{} scaling"},
                               {"source", "from {}", "from {}"},
                               {"steps", "{} steps", "{} step"},
                               {"strategy", "{}", "{}"},
                               {"test", "{}", "{}"},
                               {"transport", "{}", "{}"},
                               {"warmup", "{} warm-up steps", "{} warm-up step"},
                               {"workload", "{}", "{}"}};

const PlanField* plan_field(std::string_view axis) {
  const auto& fields = plan_fields();
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const PlanField& f) { return f.name == axis; });
  return found == fields.end() || !found->words ? nullptr : &*found;
}

/// A plan of which one field has the value; nullopt for a value of another type.
std::optional<PlanOptions> plan_with(const PlanField& field, const AxisValue& value) {
  PlanOptions options;
  if (const auto* flag = std::get_if<bool PlanOptions::*>(&field.member)) {
    if (!std::holds_alternative<bool>(value)) return std::nullopt;
    options.** flag = std::get<bool>(value);
    return options;
  }
  int64_t& number = options.*std::get<int64_t PlanOptions::*>(field.member);
  if (const auto* text = std::get_if<std::string>(&value)) {
    const auto choice = std::find(field.choices.begin(), field.choices.end(), *text);
    if (choice == field.choices.end()) return std::nullopt;
    number = choice - field.choices.begin();
  } else if (const auto* whole = std::get_if<int64_t>(&value); whole && field.choices.empty() && !field.is_text()) {
    number = *whole;
  } else {
    return std::nullopt;
  }
  return options;
}

}  // namespace

std::string axis_value(std::string_view axis, const AxisValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    const PlanField* field = plan_field(axis);
    const size_t colon = text->find(':');
    if (!field || field->is_text() || colon == std::string::npos) return printable(*text, kLongest);
    return fmt::format("{} against {}", axis_value(axis, typed_value(text->substr(0, colon))),
                       axis_value(axis, typed_value(text->substr(colon + 1))));  // cells that were paired
  }
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  if (const auto* flag = std::get_if<bool>(&value))
    return plan_field(axis) ? (*flag ? "on" : "off") : (*flag ? "yes" : "no");
  const int64_t whole = std::get<int64_t>(value);
  if (axis.ends_with("_ppm")) return fmt::format("{:g} %", static_cast<double>(whole) / 1e4);
  return axis.ends_with("bytes") ? binary_bytes(whole) : with_thousands(whole);
}

std::string setting_text(std::string_view axis, const AxisValue& value) {
  if (const PlanField* field = plan_field(axis))
    if (const std::optional<PlanOptions> options = plan_with(*field, value)) return field->words(*options);
  if (const auto* flag = std::get_if<bool>(&value))
    return axis == "in_place" && !*flag ? "out of place"
                                        : (*flag ? "" : "not ") + printable(format_axis(axis), kLongest);
  std::string words = axis_value(axis, value);
  if (words.empty()) return words;
  const auto* phrase =
      std::find_if(std::begin(kPhrases), std::end(kPhrases), [&](const Phrase& p) { return p.axis == axis; });
  if (phrase == std::end(kPhrases)) return fmt::format("{} {}", printable(format_axis(axis), kLongest), words);
  return fmt::format(fmt::runtime(words == "1" ? phrase->text_of_one : phrase->text), words);
}

AxisValue typed_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc{} && end == text.data() + text.size()) return whole;
  return text;
}

}  // namespace amdahl
