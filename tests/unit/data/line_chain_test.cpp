#include "spec/line_chain.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/digest.h"

namespace amdahl {
namespace {

std::vector<std::string> chained(const std::vector<std::string>& lines) {
  LineChain chain;
  std::vector<std::string> linked;
  for (const std::string& line : lines) linked.push_back(chain.link(line));
  return linked;
}

// How many lines are accepted before one is not.
size_t accepted(const std::vector<std::string>& lines) {
  LineChain chain;
  for (size_t i = 0; i < lines.size(); ++i)
    if (!chain.accept(lines[i])) return i;
  return lines.size();
}

const std::vector<std::string> kLines{R"({"type":"run"})", R"({"a":1.25})", R"({"a":1.25})", R"({"b":"x"})"};

TEST(LineChain, IsTheDigestOfTheLineBehindTheDigitsBefore) {
  const std::vector<std::string> lines = chained(kLines);
  const std::string first = digest_text(kLines[0]), second = digest_text(first + kLines[1]);
  EXPECT_EQ(lines[0], R"({"type":"run","chain":")" + first + "\"}");
  EXPECT_EQ(lines[1], R"({"a":1.25,"chain":")" + second + "\"}");
  EXPECT_NE(lines[1], lines[2]);                   // the same line twice
  EXPECT_EQ(digest_text(""), "2d06800538d394c2");  // XXH3_64bits of nothing, from its specification
  EXPECT_EQ(accepted(lines), lines.size());
}

TEST(LineChain, EveryChangeIsSeenAtItsLine) {
  const std::vector<std::string> lines = chained(kLines);
  for (size_t i = 0; i < lines.size(); ++i)
    for (size_t at = 0; at < lines[i].size(); ++at) {  // any one character
      std::vector<std::string> changed = lines;
      changed[i][at] = static_cast<char>(changed[i][at] ^ 1);
      EXPECT_EQ(accepted(changed), i) << changed[i];
    }
  std::vector<std::string> missing = lines, twice = lines, swapped = lines, other = lines;
  missing.erase(missing.begin() + 1);
  EXPECT_EQ(accepted(missing), 1u);
  twice.insert(twice.begin() + 2, lines[1]);
  EXPECT_EQ(accepted(twice), 2u);
  std::swap(swapped[1], swapped[2]);
  EXPECT_EQ(accepted(swapped), 1u);
  other[2] = chained({R"({"type":"run","seed":2})", kLines[1], kLines[2]})[2];
  EXPECT_EQ(accepted(other), 2u);
}

TEST(LineChain, LinesOfEarlierVersionsHaveNone) {
  EXPECT_FALSE(is_chained(kLines[1]));
  EXPECT_TRUE(is_chained(chained(kLines)[1]));
  EXPECT_TRUE(is_chained(R"({"a": 1, "chain": "2d06800538d394c2"})"));  // written again by something else
  EXPECT_EQ(accepted({kLines[0]}), 0u);
  EXPECT_EQ(accepted({""}), 0u);
}

}  // namespace
}  // namespace amdahl
