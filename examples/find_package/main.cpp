// Uses the library from another project: prints a model and the devices of this machine.
#include <amdahl/amdahl.h>

#include <cstdio>

int main() {
  const amdahl::ModelSpec model = amdahl::find_model_preset("large-6.9m");
  std::printf("%s has %s parameters\n", model.name.c_str(), amdahl::with_thousands(model.num_parameters()).c_str());
  const amdahl::InfoOutcome info = amdahl::run_info({});
  std::printf("%d cores, %zu GPUs\n", info.machine.num_cores, info.machine.devices.size());
  return model.num_parameters() == 6'885'376 ? 0 : 1;
}
