// .npz containers: zip archives of .npy files.
#pragma once

#include <string>
#include <vector>

#include "amdahl/sensor.h"
#include "files/npy.h"

namespace amdahl {

Availability npz_availability();
/// Version of libzip; empty in a build without it.
std::string npz_version();

struct NpzEntry {
  std::string name;  // without the suffix ".npy"
  NpyArray array;
};

/// All arrays in the order of the archive. Error{usage} when the file cannot be opened, Error{data_corrupt} when it is
/// not an archive, is truncated, or fails its checksums.
std::vector<NpzEntry> read_npz(const std::string& path);

/// Writes uncompressed entries, like numpy.savez.
void write_npz(const std::string& path, const std::vector<FileArray>& arrays);

}  // namespace amdahl
