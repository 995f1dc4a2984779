// What ranks must have alike: fields and ranks that differ are named.
#include "comm/job_facts.h"

#include <gtest/gtest.h>

#include "comm/rank_list.h"

namespace amdahl {
namespace {

std::string difference(const std::vector<JobFacts>& by_rank) {
  const auto error = compare_job_facts(by_rank);
  if (!error) return {};
  EXPECT_EQ(error->cause(), Cause::launcher_mismatch);
  const std::string text = error->what(), begin = "the ranks were not started alike: ";
  EXPECT_EQ(text.rfind(begin, 0), 0u) << text;
  return text.substr(begin.size());
}

TEST(JobFacts, NameFieldsValuesAndRanks) {
  const JobFacts a{{"lr", "0.1"}, {"seed", "1"}}, b{{"lr", "0.2"}, {"seed", "1"}}, c{{"lr", "0.1"}};
  EXPECT_EQ(difference({a, a, a}), "");
  EXPECT_EQ(difference({a, b}), "lr is 0.1 on rank 0 and 0.2 on rank 1");
  EXPECT_EQ(difference({a, b, a}), "lr is 0.1 on ranks 0, 2 and 0.2 on rank 1");
  EXPECT_EQ(difference({c, b, a}),
            "lr is 0.1 on ranks 0, 2 and 0.2 on rank 1; seed is absent on rank 0 and 1 on ranks 1, 2");
  EXPECT_EQ(difference({{{"data", ""}}, {{"data", "x\ny"}}}), "data is empty on rank 0 and x\\x0ay on rank 1");
}

TEST(JobFacts, OfManyFieldsTheFirstAreNamed) {
  JobFacts a, b;
  for (int i = 0; i < 7; ++i) a["f" + std::to_string(i)] = "a", b["f" + std::to_string(i)] = "b";
  const std::string text = difference({a, b});
  EXPECT_NE(text.find("f3 is a on rank 0 and b on rank 1; and 3 more fields"), std::string::npos) << text;
}

TEST(JobFacts, OfManyRanksTheFirstAreNamed) {
  EXPECT_EQ(rank_list({4}), "rank 4");
  EXPECT_EQ(rank_list({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
}

}  // namespace
}  // namespace amdahl
