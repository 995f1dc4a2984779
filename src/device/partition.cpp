#include "device/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"

namespace amdahl {

int partition_size(double share, int all, int least, int step) {
  if (!(share > 0 && share < 1))
    throw Error(Cause::usage, fmt::format("{} of a GPU's {} multiprocessors", share, all),
                "a share above 0 and below 1");
  step = std::max(step, 1);
  least = (std::max(least, 1) + step - 1) / step * step;
  const int most = (all - 1) / step * step;  // fewer than all
  if (share * all < least || most < least)
    throw Error(
        Cause::usage,
        fmt::format("{} of a GPU's {} multiprocessors are fewer than the {} of its smallest part", share, all, least),
        most < least ? "the whole GPU: it cannot be divided"
                     : fmt::format("a share of {:.3f} or more", std::ceil(1e3 * least / all) / 1e3));
  const int nearest = static_cast<int>(std::lround(share * all / step)) * step;
  return std::clamp(nearest, least, most);
}

}  // namespace amdahl
