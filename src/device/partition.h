// How large a part of a GPU can be: multiprocessors are given away in groups.
#pragma once

namespace amdahl {

/// How many of `all` multiprocessors `share` of them (above 0, below 1) is: the nearest multiple of `step`, at least
/// `least` and not all. Error{usage} where that part is smaller than `least`.
int partition_size(double share, int all, int least, int step);

}  // namespace amdahl
