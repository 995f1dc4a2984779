// Modelled memory of a study's cells.
#pragma once

#include "measure/study/runner.h"
#include "train/device_memory.h"

namespace amdahl {

/// Options of the cell's trainer.
TrainerOptions options_of(const StudySettings& settings, const StudyCellSpec& cell);

/// On one device: the trainer, and the batches that its steps cycle through.
MemoryParts cell_memory(const StudySettings& settings, const StudyCellSpec& cell, BackendKind backend,
                        int64_t data_rows);

}  // namespace amdahl
