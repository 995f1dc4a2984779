// A job's ranks as a mesh of data, pipeline and tensor parallelism: every rank has a communicator along each axis.
//
// Tensor-parallel neighbours are neighbours in rank, because they communicate most; then come data-parallel ones, and
// pipeline stages are furthest apart: rank = (pp * dp_size + dp) * tp_size + tp.
#pragma once

#include <memory>

#include "amdahl/plan.h"
#include "comm/communicator.h"

namespace amdahl {

/// A rank's place along each axis.
struct MeshPlace {
  int dp = 0, tp = 0, pp = 0;
  auto operator<=>(const MeshPlace&) const = default;
};

MeshPlace place_of(const Mesh& mesh, int rank);
int rank_of(const Mesh& mesh, const MeshPlace& place);

class DeviceMesh {
 public:
  /// Collective over `world`, whose ranks it keeps in order. Error{usage} when the mesh has another size.
  DeviceMesh(Communicator& world, const Mesh& mesh, Deadline deadline);

  const Mesh& mesh() const { return mesh_; }
  const MeshPlace& place() const { return place_; }
  /// Over the ranks that differ from this one in their place along the axis alone; the rank in it is that place.
  Communicator& dp() { return *dp_; }
  Communicator& tp() { return *tp_; }
  Communicator& pp() { return *pp_; }

 private:
  Mesh mesh_;
  MeshPlace place_;
  std::unique_ptr<Communicator> dp_, tp_, pp_;
};

}  // namespace amdahl
