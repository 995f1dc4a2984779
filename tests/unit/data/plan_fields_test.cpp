// The table of a plan's fields: what it makes of a plan, in Records and identities, and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "amdahl/plan.h"
#include "plan/cell_axes.h"

namespace amdahl {
namespace {

/// Every field away from its default.
PlanOptions other_options() {
  PlanOptions options;
  for (const PlanField& field : plan_fields()) {
    if (const auto* number = std::get_if<int64_t PlanOptions::*>(&field.member))
      options.** number = std::min(field.most, 2 * (options.**number) + 3);
    else
      options.*std::get<bool PlanOptions::*>(field.member) ^= true;
  }
  return options;
}

TEST(PlanFields, AreAllMembersWithNamesOfTheirOwn) {
  std::set<std::string_view> names, words;
  for (const PlanField& field : plan_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_TRUE(words.insert(field.word).second && !field.word.starts_with("-")) << field.word;
    EXPECT_FALSE(field.help.empty()) << field.name;
    EXPECT_TRUE(field.words || !field.is_axis) << field.name << " has no words for legends";
  }
  constexpr size_t kNumbers = sizeof(PlanOptions) / sizeof(int64_t);  // flags take as much, with their padding
  EXPECT_EQ(plan_fields().size(), kNumbers) << "a member of PlanOptions has no row";
}

TEST(PlanFields, AxesLeadBackToThePlan) {
  PlanOptions options = other_options();
  std::map<std::string, AxisValue> axes;
  add_plan_axes(options, axes);
  const auto at = [&](const PlanField& field) { return axes.at(std::string(field.name)); };
  const AxisReaders readers{
      [&](const PlanField& field) { return std::get<int64_t>(at(field)); },
      [&](const PlanField& field) { return std::get<bool>(at(field)); },
      [&](const PlanField& field) { return choice_of(field, std::get<std::string>(at(field)), Cause::usage, ""); },
      [&](const PlanField& field) { return axes.count(std::string(field.name)) > 0; }};
  const PlanOptions again = plan_of_axes(readers);
  for (const PlanField& field : plan_fields())
    EXPECT_EQ(text_of(field, again), text_of(field, field.is_axis ? options : PlanOptions{})) << field.name;
}

TEST(PlanFields, TextsDifferWherePlansDo) {
  for (const PlanField& field : plan_fields()) {
    EXPECT_NE(text_of(field, other_options()), text_of(field, {})) << field.name;
    if (!field.words) continue;
    EXPECT_NE(field.words(other_options()), field.words({})) << field.name;
  }
}

TEST(PlanFields, LimitsAreChecked) {
  EXPECT_NO_THROW(check_plan_options({}));
  for (const PlanField& field : plan_fields()) {
    const auto* number = std::get_if<int64_t PlanOptions::*>(&field.member);
    if (!number) continue;
    for (const int64_t wrong : {field.least - 1, field.most + 1}) {
      PlanOptions options;
      options.** number = wrong;
      try {
        check_plan_options(options);
        ADD_FAILURE() << field.name << " may be " << wrong;
      } catch (const Error& error) {
        EXPECT_EQ(error.cause(), Cause::usage);
        EXPECT_NE(std::string(error.what()).find(field.name), std::string::npos) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace amdahl
