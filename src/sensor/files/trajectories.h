// Readers of trajectory files.
#pragma once

#include <string>
#include <vector>

#include "amdahl/sensor.h"
#include "files/float_loss.h"

namespace amdahl {

Trajectories load_csv_trajectories(const std::string& path, const SensorFileOptions& options);

/// Adds a warning with the size of the loss, where it can be seen beside the steps of the values.
void warn_of_loss(const FloatLoss& loss, const std::string& where, Trajectories& stream);

/// Error{data_corrupt} for a time that is not finite or is below the previous one; `where(b, s)` names the file and the
/// position in it.
template <class Where>
void check_times(const Trajectories& stream, Where&& where) {
  for (int64_t b = 0; b < stream.batch; ++b)
    for (int64_t s = 0; s < stream.length; ++s) {
      const double* time = stream.times.data() + b * stream.length + s;
      if (*time - *time != 0)  // NaN or infinite
        throw Error(Cause::data_corrupt, where(b, s) + ": a time is not finite", "drop or correct that sample");
      if (s > 0 && *time < time[-1])
        throw Error(Cause::data_corrupt, where(b, s) + ": a time is below the one before it",
                    "sort the samples by time; or name the column batch that tells trajectories apart");
    }
}

}  // namespace amdahl
