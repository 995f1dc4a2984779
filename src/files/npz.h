// .npz containers: zip archives of .npy files.
#pragma once

#include <string>
#include <vector>

#include "amdahl/sensor_files.h"
#include "files/npy.h"

namespace amdahl {

Availability npz_availability();
/// Of the library; empty without it.
std::string npz_version();

struct NpzEntry {
  std::string name;  // without .npy
  NpyArray array;
};

/// All arrays in the order of the archive. Error{usage} when the file cannot be opened, Error{data_corrupt} when it is
/// no archive, is cut off, or fails its checksums.
std::vector<NpzEntry> read_npz(const std::string& path);

/// Writes uncompressed entries, as numpy.savez does.
void write_npz(const std::string& path, const std::vector<FileArray>& arrays);

}  // namespace amdahl
