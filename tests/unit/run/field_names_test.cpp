// Texts that refer to fields of the configuration: what a namer makes of them, and what stays.
#include <gtest/gtest.h>

#include "amdahl/error.h"

namespace amdahl {
namespace {

/// "<a=b c>"; knows no field `unknown`.
std::string bracketed(const std::vector<FieldWord>& words) {
  std::string text;
  for (const FieldWord& word : words) {
    if (word.name == "unknown") return {};
    text += (text.empty() ? "" : " ") + word.name + (word.value ? "=" + *word.value : "");
  }
  return "<" + text + ">";
}

class FieldNames : public ::testing::Test {
 protected:
  void SetUp() override { set_field_namer(bracketed); }
  void TearDown() override { set_field_namer(nullptr); }
};

TEST_F(FieldNames, TakeThePlaceOfReferences) {
  EXPECT_EQ(named("`batch_sizes` is empty"), "<batch_sizes> is empty");
  EXPECT_EQ(named("a, `strategy=ddp`, or `links machine=FILE`"), "a, <strategy=ddp>, or <links machine=FILE>");
  EXPECT_EQ(named("`points=1,2``targets=A[,B]`"), "<points=1,2><targets=A[,B]>");
  EXPECT_EQ(named("the file of ``links list``."), "the file of `<links list>`.");
  EXPECT_EQ(named_reference({{"study"}, {"model", "my model.json"}}), "<study model=my model.json>");
}

TEST_F(FieldNames, LeaveWhatIsNoReference) {
  for (const std::string text : {"", "`", "``", "``` ``", "no reference", "`unknown`", "`Name`", "`--steps`", "`a  b`",
                                 "` a`", "`a `", "`a=`", "`=a`", "`a-b`", "`9`", "`a=b", "`amdahl study --steps`"})
    EXPECT_EQ(named(text), text);
  EXPECT_EQ(named("`a b-c `d` e`"), "`a b-c <d> e`");
}

TEST_F(FieldNames, AreInErrorsAndTheirCopies) {
  const Error error(Cause::usage, "`runs` is 0", "`runs=1`, or ``runs``", 3);
  EXPECT_STREQ(error.what(), "<runs> is 0");
  EXPECT_EQ(error.remedy(), "<runs=1>, or `<runs>`");
  EXPECT_EQ(error.with_rank(1).line(), "error[usage]: rank 1: <runs> is 0; try: <runs=1>, or `<runs>`");
}

TEST_F(FieldNames, AreReferencesWithoutANamer) {
  set_field_namer(nullptr);
  EXPECT_EQ(named("`runs` is 0"), "`runs` is 0");
  EXPECT_EQ(named_reference({{"study"}, {"runs", "5"}}), "`study runs=5`");
  EXPECT_STREQ(Error(Cause::usage, "`runs` is 0").what(), "`runs` is 0");
}

}  // namespace
}  // namespace amdahl
