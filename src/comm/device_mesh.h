// The ranks of a job as a mesh of data, pipeline and tensor parallelism, with a communicator along each axis.
//
// Tensor-parallel ranks are adjacent because they communicate most, and pipeline stages are furthest apart:
// rank = (pp * dp_size + dp) * tp_size + tp.
#pragma once

#include <memory>

#include "amdahl/plan.h"
#include "comm/communicator.h"

namespace amdahl {

/// A rank's coordinate along each axis.
struct MeshPlace {
  int dp = 0, tp = 0, pp = 0;
  auto operator<=>(const MeshPlace&) const = default;
};

MeshPlace place_of(const Mesh& mesh, int rank);
int rank_of(const Mesh& mesh, const MeshPlace& place);

class DeviceMesh {
 public:
  /// Collective over `world`; rank order is kept along each axis. Error{usage} when the mesh has another size.
  DeviceMesh(Communicator& world, const Mesh& mesh, Deadline deadline);

  const Mesh& mesh() const { return mesh_; }
  const MeshPlace& place() const { return place_; }
  /// Communicators over the ranks that differ from this one only along the axis; the rank in each is the coordinate.
  Communicator& dp() { return *dp_; }
  Communicator& tp() { return *tp_; }
  Communicator& pp() { return *pp_; }

 private:
  Mesh mesh_;
  MeshPlace place_;
  std::unique_ptr<Communicator> dp_, tp_, pp_;
};

}  // namespace amdahl
