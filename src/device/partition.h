// Size of a partition of a GPU: multiprocessors are assigned in groups.
#pragma once

namespace amdahl {

/// Number of multiprocessors for `share`, in (0, 1), of `all`: the nearest multiple of `step`, at least `least` and
/// fewer than all. Error{usage} for a share smaller than `least` multiprocessors.
int partition_size(double share, int all, int least, int step);

}  // namespace amdahl
