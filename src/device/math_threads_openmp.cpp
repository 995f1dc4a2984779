#include <omp.h>

#include "device/cpu_stream.h"

namespace amdahl {

void limit_math_threads(int count) { omp_set_num_threads(count); }

}  // namespace amdahl
