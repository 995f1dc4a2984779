// Plans as text: "dp2.tp2.pp2,1f1b,m8,zero1".
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "amdahl/error.h"
#include "amdahl/plan.h"

namespace amdahl {
namespace {

constexpr std::array<std::string_view, 7> kStrategies{"single", "replicated", "ddp", "zero1", "zero2", "zero3", "dp"};
constexpr const char* kExample = "a plan like dp2.tp2.pp2,1f1b,m8,zero1";
constexpr double kRounding = 1e-9;  // of decimal fractions
constexpr int64_t kMostDevices = 1 << 16;

struct Axis {
  std::string_view name;
  int Mesh::*size;
};
constexpr std::array<Axis, 3> kAxes{{{"dp", &Mesh::dp}, {"tp", &Mesh::tp}, {"pp", &Mesh::pp}}};

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || text != std::to_string(number)) return std::nullopt;  // 08 is no number
  return number;
}

/// NaN for a text that is no number.
double number_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole ? number : std::numeric_limits<double>::quiet_NaN();
}

[[noreturn]] void refuse_plan(const std::string& what, const std::string& remedy = kExample) {
  throw Error(Cause::usage, "plan: " + what, remedy);
}

/// A plan from its parts.
std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

/// "dp4tp2" with its dot: "dp4.tp2"; other texts as they are.
std::string with_dots(std::string_view part) {
  std::string text;
  for (size_t i = 0; i < part.size(); ++i) {
    const bool axis =
        std::any_of(kAxes.begin(), kAxes.end(), [&](const Axis& one) { return part.substr(i).starts_with(one.name); });
    const bool after_number = i > 0 && std::isdigit(static_cast<unsigned char>(part[i - 1]));
    text += axis && after_number ? "." : "";
    text += part[i];
  }
  return text;
}

/// The axis of "dp2"; null for other texts.
const Axis* axis_of(std::string_view part, int64_t& size) {
  for (const Axis& axis : kAxes) {
    if (!part.starts_with(axis.name)) continue;
    const std::optional<int64_t> number = whole_number(part.substr(axis.name.size()));
    if (!number) continue;
    size = *number;
    return &axis;
  }
  return nullptr;
}

class Parser {
 public:
  ParallelPlan parse(std::string_view text) {
    refuse_two_meshes(text);
    for (const std::string_view part : split_at(text, ',')) take(part, text);
    if (plan_.strategy.empty()) plan_.strategy = plan_.mesh.dp > 1 ? "ddp" : "single";
    if (plan_.mesh.pp > 1 && !given_.contains("accumulate")) plan_.accumulate = 2 * plan_.mesh.pp;
    return plan_;
  }

 private:
  /// "dp2,tp2" is one plan of four devices or two plans of two.
  static void refuse_two_meshes(std::string_view text) {
    std::vector<std::string> meshes, parts{""};
    int64_t size = 0;
    for (const std::string_view part : split_at(text, ','))
      (axis_of(split_at(part, '.').front(), size) ? meshes : parts).emplace_back(part);
    if (meshes.size() < 2) return;
    for (const std::string& mesh : meshes) parts.front() += (parts.front().empty() ? "" : ".") + mesh;
    refuse_plan(fmt::format("'{}' has {} meshes", printable(text, 80), meshes.size()),
                fmt::format("`plans={}`, or several plans: {}", joined(parts), fmt::join(meshes, " ")));
  }

  void take(std::string_view part, std::string_view plan) {
    if (part.empty()) refuse_plan("it has an empty part");
    if (take_mesh(part) || take_strategy(part) || take_field(part)) return;
    if (const std::string dotted = with_dots(part); dotted != part) {
      std::vector<std::string> parts;
      for (const std::string_view each : split_at(plan, ','))
        parts.push_back(each == part ? dotted : std::string(each));
      refuse_plan(fmt::format("unknown part '{}'", printable(part, 40)),
                  fmt::format("`plans={}`: axes are joined with dots", printable(joined(parts), 80)));
    }
    std::vector<std::string> known{"dp2", "tp2", "pp2"};
    known.insert(known.end(), kStrategies.begin(), kStrategies.end());
    for (const PlanField& field : plan_fields()) {
      if (!field.prefix.empty()) known.push_back(fmt::format("{}2", field.prefix));
      if (field.is_bare)
        known.insert(known.end(), field.choices.begin(), field.choices.end());
      else
        known.emplace_back(field.word);
    }
    refuse_plan(fmt::format("unknown part '{}'", printable(part, 40)), choices_hint(std::string(part), known));
  }

  void once(std::string_view name) {
    if (!given_.insert(std::string(name)).second) refuse_plan(fmt::format("{} is given twice", name));
  }

  bool take_mesh(std::string_view part) {
    int64_t size = 0;
    if (!axis_of(split_at(part, '.').front(), size)) return false;
    for (const std::string_view each : split_at(part, '.')) {
      const Axis* axis = axis_of(each, size);
      if (!axis) refuse_plan(fmt::format("'{}' is no axis of a mesh", printable(each, 40)), "dp2.tp2.pp2");
      once(axis->name);
      if (size < 1 || size > kMostDevices)
        refuse_plan(fmt::format("{} is {}", axis->name, size), fmt::format("1 to {}", with_thousands(kMostDevices)));
      plan_.mesh.*axis->size = static_cast<int>(size);
    }
    return true;
  }

  bool take_strategy(std::string_view part) {
    if (std::find(kStrategies.begin(), kStrategies.end(), part) == kStrategies.end()) return false;
    once("strategy");
    plan_.strategy = part;
    return true;
  }

  bool take_field(std::string_view part) {
    const size_t equals = part.find('=');
    const std::string_view word = part.substr(0, equals);
    for (const PlanField& field : plan_fields()) {
      if (const auto* flag = std::get_if<bool PlanOptions::*>(&field.member)) {
        if (part != field.word) continue;
        once(field.name);
        plan_.** flag = !(PlanOptions{}.**flag);
        return true;
      }
      if (!field.prefix.empty() && part.starts_with(field.prefix) && whole_number(part.substr(field.prefix.size())))
        return set(field, part.substr(field.prefix.size()));
      if (field.is_bare && std::find(field.choices.begin(), field.choices.end(), part) != field.choices.end())
        return set(field, part);
      if (equals != std::string_view::npos && word == field.word) return set(field, part.substr(equals + 1));
    }
    return false;
  }

  bool set(const PlanField& field, std::string_view value) {
    once(field.name);
    int64_t& member = plan_.*std::get<int64_t PlanOptions::*>(field.member);
    if (!field.choices.empty()) {
      const auto found = std::find(field.choices.begin(), field.choices.end(), value);
      if (found == field.choices.end())
        refuse_plan(fmt::format("{} is '{}'", field.word, printable(value, 40)),
                    choices_hint(std::string(value), {field.choices.begin(), field.choices.end()}));
      member = found - field.choices.begin();
      return true;
    }
    if (field.parse) {
      member = field.parse(value);
      return true;
    }
    const double unit = static_cast<double>(field.option_unit);
    double given = number_of(value) * unit;  // NaN compares false
    if (field.option_unit > 1 || std::abs(given - std::round(given)) < kRounding) given = std::round(given);
    if (!(given >= static_cast<double>(field.least) && given <= static_cast<double>(field.most)) ||
        given != std::floor(given))
      refuse_plan(fmt::format("{} is '{}'", field.word, printable(value, 40)),
                  fmt::format("{:.3g} to {}{}", static_cast<double>(field.least) / unit,
                              with_thousands(field.most / field.option_unit),
                              field.unit_name.empty() ? "" : " " + std::string(field.unit_name)));
    member = static_cast<int64_t>(given);
    return true;
  }

  ParallelPlan plan_{{}, "", {}, 0};
  std::set<std::string> given_;
};

/// "m8", "1f1b", "no-overlap", "recompute=block".
std::string part_text(const PlanField& field, const PlanOptions& options) {
  if (std::holds_alternative<bool PlanOptions::*>(field.member)) return std::string(field.word);
  const int64_t value = options.*std::get<int64_t PlanOptions::*>(field.member);
  if (field.is_bare) return text_of(field, options);
  if (!field.prefix.empty()) return fmt::format("{}{}", field.prefix, value);
  if (field.is_text()) return fmt::format("{}={}", field.word, text_of(field, options));
  return fmt::format("{}={}", field.word, static_cast<double>(value) / static_cast<double>(field.option_unit));
}

}  // namespace

std::string mesh_text(const Mesh& mesh) {
  std::string text;
  for (const Axis& axis : kAxes)
    if (mesh.*axis.size > 1) text += fmt::format("{}{}{}", text.empty() ? "" : ".", axis.name, mesh.*axis.size);
  return text.empty() ? "dp1" : text;
}

ParallelPlan parse_plan(std::string_view text) { return Parser().parse(text); }

std::string format_plan(const ParallelPlan& plan) {
  std::string text = mesh_text(plan.mesh);
  const bool has_stages = plan.mesh.pp > 1;
  for (const PlanField& field : plan_fields()) {
    const bool is_default = text_of(field, plan) == text_of(field, {});
    const bool of_stages = has_stages && (field.name == "schedule" || field.name == "accumulate");
    if (!is_default || of_stages) text += "," + part_text(field, plan);
  }
  if (plan.strategy != (plan.mesh.dp > 1 ? "ddp" : "single")) text += "," + plan.strategy;
  return text;
}

}  // namespace amdahl
