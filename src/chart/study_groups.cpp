#include "chart/study_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/number_text.h"

namespace amdahl {
namespace {

constexpr size_t kLongestSlug = 80;

bool is_default(const PlanField& field, const PlanOptions& plan) { return text_of(field, plan) == text_of(field, {}); }

// Whether a plan's text has the value of the field: "m8" or "zb-h1" in "pp4,m8,zb-h1".
bool names_field(const std::string& strategy, const PlanField& field, const PlanOptions& plan) {
  const std::string value = text_of(field, plan);
  for (size_t at = 0; at < strategy.size();) {
    const size_t end = std::min(strategy.find(',', at), strategy.size());
    const std::string_view part = std::string_view(strategy).substr(at, end - at);
    if (part == field.word || part == value || part == fmt::format("{}={}", field.word, value) ||
        part == fmt::format("{}{}", field.prefix, value))
      return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

StudyGroup group_of(const CellKey& key) { return {key.model, key.num_parameters, key.scaling, key.math, key.data}; }

std::vector<StudyGroup> groups_of(const StudySummary& summary) {
  std::set<StudyGroup> groups;
  for (const StudyCell& cell : summary.cells)
    if (cell.step_time_us.n > 0) groups.insert(group_of(cell.key));
  return {groups.begin(), groups.end()};
}

std::string group_text(const StudyGroup& group) {
  return fmt::format("{}, {} parameters, {} scaling, {}", group.model, with_thousands(group.num_parameters),
                     group.scaling, group.math);
}

std::string group_title(const StudyGroup& group, const std::vector<StudyGroup>& all) {
  const auto count = [&](auto member) {
    std::set<std::remove_cvref_t<decltype(group.*member)>> values;
    for (const StudyGroup& other : all) values.insert(other.*member);
    return values.size();
  };
  std::string text =
      fmt::format("{} ({} parameters)", group.model, short_number(static_cast<double>(group.num_parameters)));
  if (count(&StudyGroup::scaling) > 1) text += fmt::format(", {} scaling", group.scaling);
  if (count(&StudyGroup::math) > 1) text += ", " + group.math;
  if (count(&StudyGroup::data) > 1) text += ", " + group.data;
  return text;
}

std::string group_slug(const StudyGroup& group) {
  const std::string text =
      fmt::format("{}-{}-{}-{}-{}", group.model, group.num_parameters, group.scaling, group.math, group.data);
  std::string slug;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 0x80)
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  if (slug.size() > kLongestSlug) slug.resize(kLongestSlug);  // used in file names; pages make names unique
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug;
}

ConfigurationNames::ConfigurationNames(const StudySummary& summary, const StudyGroup& group) {
  std::set<std::string> strategies, launches, optimizers;
  std::map<std::string_view, std::set<std::string>> plans;  // values by field
  for (const StudyCell& cell : summary.cells) {
    const CellKey& key = cell.key;
    if (group_of(key) != group) continue;
    launches.insert(key.launch);
    optimizers.insert(key.optimizer);
    for (const PlanField& field : plan_fields())
      if (field.is_axis && (key.devices > 1 || !field.of_several)) plans[field.name].insert(text_of(field, key.plan));
    if (key.devices > 1) strategies.insert(key.strategy);  // a strategy has no meaning on one device
  }
  strategy_ = strategies.size() > 1;
  launch_ = launches.size() > 1;
  for (const PlanField& field : plan_fields())
    if (plans[field.name].size() > 1) plan_.push_back(&field);
  optimizer_ = optimizers.size() > 1;
}

std::string ConfigurationNames::of(const CellKey& key) const {
  std::vector<std::string> words;
  const bool several = key.devices > 1;
  if (strategy_ && several) words.push_back(key.strategy);
  if (launch_) words.push_back(key.launch);
  for (const PlanField* field : plan_)
    if ((several || !field->of_several) && !is_default(*field, key.plan) &&
        !(strategy_ && several && names_field(key.strategy, *field, key.plan)))
      words.push_back(field->words(key.plan));
  if (optimizer_) words.push_back(key.optimizer);
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string ConfigurationNames::series(const CellKey& key) const {
  const std::string words = of(key);
  const std::string batch = with_thousands(fixed_batch(key));
  return words.empty() ? batch : fmt::format("{}, {}", batch, words);
}

std::string ConfigurationNames::cell(const CellKey& key) const {
  const std::string words = of(key);
  return fmt::format("batch {} on {}{}", with_thousands(key.global_batch), key.devices,
                     words.empty() ? "" : ", " + words);
}

int64_t fixed_batch(const CellKey& key) { return key.scaling == "weak" ? key.device_batch() : key.global_batch; }

}  // namespace amdahl
