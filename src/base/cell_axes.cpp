#include "base/cell_axes.h"

namespace amdahl {

std::map<std::string, AxisValue> axes_of(const CellKey& key) {
  return {{"model", key.model},
          {"num_parameters", key.num_parameters},
          {"scaling", key.scaling},
          {"math", key.math},
          {"global_batch", key.global_batch},
          {"devices", key.devices},
          {"strategy", key.strategy},
          {"launch", key.launch},
          {"backend", key.backend},
          {"optimizer", key.optimizer},
          {"accumulate", key.accumulate},
          {"overlap", key.overlap},
          {"bucket_bytes", key.bucket_bytes},
          {"data", key.data}};
}

}  // namespace amdahl
