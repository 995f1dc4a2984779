// usage: random_models FIRST_SEED COUNT [DEVICES] [MOST_PARAMETERS] [MOST_FLOPS]     one drawn model a line
// (random_models.h)
#include "random_models.h"

#include <cstdio>
#include <cstdlib>

int main(int count, char** words) {
  if (count < 3) {
    std::fputs("usage: random_models FIRST_SEED COUNT [DEVICES] [MOST_PARAMETERS] [MOST_FLOPS]\n", stderr);
    return 2;
  }
  amdahl::test::ModelLimits limits;
  const auto first = std::strtoull(words[1], nullptr, 10), models = std::strtoull(words[2], nullptr, 10);
  if (count > 3) limits.most_devices = std::atoi(words[3]);
  if (count > 4) limits.most_parameters = std::strtod(words[4], nullptr);
  if (count > 5) limits.most_flops = std::strtod(words[5], nullptr);
  for (auto seed = first; seed < first + models; ++seed)
    std::puts(line_of(amdahl::test::draw_model(seed, limits)).c_str());
}
