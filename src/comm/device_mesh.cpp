#include "comm/device_mesh.h"

#include <fmt/format.h>

namespace amdahl {

MeshPlace place_of(const Mesh& mesh, int rank) {
  return {.dp = rank / mesh.tp % mesh.dp, .tp = rank % mesh.tp, .pp = rank / (mesh.tp * mesh.dp)};
}

int rank_of(const Mesh& mesh, const MeshPlace& place) { return (place.pp * mesh.dp + place.dp) * mesh.tp + place.tp; }

DeviceMesh::DeviceMesh(Communicator& world, const Mesh& mesh, Deadline deadline) : mesh_(mesh) {
  if (mesh.dp < 1 || mesh.tp < 1 || mesh.pp < 1 || mesh.size() != world.world_size())
    throw Error(Cause::usage,
                fmt::format("a mesh of dp {}, tp {} and pp {} has {} devices and there are {}", mesh.dp, mesh.tp,
                            mesh.pp, mesh.size(), world.world_size()),
                "sizes whose product is the number of devices");
  place_ = place_of(mesh, world.rank());
  const auto along = [&](int MeshPlace::*axis) {
    MeshPlace first = place_;  // of the ranks along the axis
    first.*axis = 0;
    return world.split(rank_of(mesh, first), place_.*axis, deadline);
  };
  dp_ = along(&MeshPlace::dp);
  tp_ = along(&MeshPlace::tp);
  pp_ = along(&MeshPlace::pp);
}

}  // namespace amdahl
