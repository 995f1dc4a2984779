// Resamples the data of a camera and of a joint sensor to common times, and voxelizes a point cloud, on the CPU.
//
// With an installed amdahl: g++ -std=c++20 preprocess.cpp -lamdahl
#include <amdahl/sensor.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  using amdahl::DType;
  try {
    amdahl::Preprocessor preprocessor = amdahl::Preprocessor::on_host();

    const std::vector<float> camera{0, 10, 20}, camera_times{0, 1, 2};              // one value at 1 Hz
    const std::vector<float> joints{5, 6, 7, 8, 9}, joint_times{0, .5, 1, 1.5, 2};  // one at 2 Hz
    const std::vector<float> targets{.25, 1.25};
    std::vector<float> fused(4);
    preprocessor.fuse_multimodal({{{camera.data(), DType::f32, {1, 3, 1}}, {camera_times.data(), DType::f32, {1, 3}}},
                                  {{joints.data(), DType::f32, {1, 5, 1}}, {joint_times.data(), DType::f32, {1, 5}}}},
                                 {targets.data(), DType::f32, {1, 2}}, {fused.data(), DType::f32, {1, 2, 2}});
    std::printf("at 0.25 s: camera %.2f, joint %.2f\n", fused[0], fused[1]);
    std::printf("at 1.25 s: camera %.2f, joint %.2f\n", fused[2], fused[3]);

    const std::vector<float> points{0.5, 0.5, 0.5, 0.6, 0.5, 0.5, 1.5, 0.5, 0.5, 9, 9, 9};
    std::vector<int32_t> grid(8);
    const amdahl::VoxelizeStats stats = preprocessor.voxelize_pointcloud(
        {points.data(), DType::f32, {4, 3}}, {}, {.minimum = {0, 0, 0}, .voxel_size = 1, .size = {2, 2, 2}},
        {grid.data(), DType::i32, {2, 2, 2}}, {.mode = amdahl::VoxelMode::count});
    std::printf("%d points in the first voxel, %lld outside\n", grid[0], static_cast<long long>(stats.num_outside));
  } catch (const amdahl::Error& error) {
    std::fprintf(stderr, "%s\n", error.line().c_str());
    return exit_code(error.cause());
  }
}
