// GPUs by data sheet as TOML, a format that allows comments.
#include "spec/toml_files.h"

#include <fmt/format.h>

#include "amdahl/error.h"
#include "files/whole_file.h"
#include "spec/toml_document.h"

namespace amdahl {
namespace {

/// A figure that a data sheet has.
double figure_of(const TomlFields& fields, const char* name, double most) {
  const auto value = fields.amount(name, true);
  if (!value) fields.fail(fmt::format("'{}' is missing", name), fmt::format("{} = a figure of the data sheet", name));
  if (*value > most)
    fields.fail(fields.node(name)->source(), fmt::format("{} is {}", name, *value), fmt::format("at most {}", most));
  return *value;
}

std::string required_text(const TomlFields& fields, const char* name, const char* remedy) {
  const auto value = fields.text(name);
  if (!value) fields.fail(fmt::format("'{}' is missing", name), remedy);
  return *value;
}

}  // namespace

GpuKind gpu_kind_from_toml(std::string_view text, std::string_view origin) {
  // Far beyond any GPU: what is above is a mistake of units.
  constexpr double kMostTflops = 1e5, kMostGbps = 1e6, kMostGb = 1e4, kMostCacheMb = 1e4;
  constexpr int64_t kMostMultiprocessors = 10'000;
  const toml::table document = parse_toml(text, origin, "data/gpu-a100-40gb.toml");
  const TomlFields fields(document, origin);
  fields.refuse_unknown({"name", "tf32_tflops", "bf16_tflops", "fp32_tflops", "memory_gbps", "memory_gb",
                         "multiprocessors", "cache_mb", "link", "source"});
  GpuKind gpu;
  gpu.name = required_text(fields, "name", "name = \"NVIDIA A100-PCIE-40GB\"");
  gpu.tf32_tflops = figure_of(fields, "tf32_tflops", kMostTflops);
  gpu.bf16_tflops = figure_of(fields, "bf16_tflops", kMostTflops);
  gpu.fp32_tflops = figure_of(fields, "fp32_tflops", kMostTflops);
  gpu.memory_gbps = figure_of(fields, "memory_gbps", kMostGbps);
  gpu.memory_gb = figure_of(fields, "memory_gb", kMostGb);
  gpu.cache_mb = figure_of(fields, "cache_mb", kMostCacheMb);
  const auto units = fields.count("multiprocessors");
  if (!units || *units > kMostMultiprocessors)
    fields.fail("'multiprocessors' is missing or implausible", "multiprocessors = a whole number of the data sheet");
  gpu.multiprocessors = static_cast<int>(*units);
  gpu.link = required_text(fields, "link", "link = \"pcie4\", of the links that `what_if` knows");
  gpu.source = fields.text("source").value_or(std::string(origin));
  return gpu;
}

GpuKind load_gpu_kind(const std::string& path) {
  return gpu_kind_from_toml(read_file(path, Cause::usage, kMostTableBytes), path);
}

}  // namespace amdahl
