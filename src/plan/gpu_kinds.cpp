#include "plan/gpu_kinds.h"

#include <algorithm>
#include <cctype>

namespace amdahl {
namespace {

/// Words in lower case, as "nvidia", "a100", "sxm4", "80gb" of "NVIDIA A100-SXM4-80GB".
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name)
    if (c == ' ' || c == '-')
      words.emplace_back();
    else
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::erase(words, "");
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word;
  return text;
}

/// Words that do not tell one variant of a GPU from another: maker, board and memory.
bool is_common(const std::string& word) {
  constexpr std::string_view kWords[] = {"nvidia", "geforce", "sxm", "sxm4", "sxm5", "sxm6", "hbm2e", "hbm3", "hbm3e"};
  const bool is_size = word.size() > 2 && word.ends_with("gb") &&
                       std::all_of(word.begin(), word.end() - 2, [](unsigned char c) { return std::isdigit(c); });
  return is_size || std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

/// The kind that has the figures of exactly this device; null for others, as an H100 on PCI Express or a part of a GPU.
const GpuKind* same_kind(std::string_view device_name) {
  std::vector<std::string> words = words_of(device_name);
  std::erase_if(words, is_common);
  for (const GpuKind& kind : gpu_kinds())
    if (joined(words_of(kind.name)) == joined(words)) return &kind;
  return nullptr;
}

}  // namespace

const std::vector<GpuKind>& gpu_kinds() {
  static const std::vector<GpuKind> kinds{
      {"a100", 156, 312, 19.5, 2039, 80, 108, 40, "nvlink3", "NVIDIA A100 80GB SXM data sheet"},
      {"h100", 495, 989, 67, 3350, 80, 132, 50, "nvlink4", "NVIDIA H100 SXM data sheet, dense"},
      {"h200", 495, 989, 67, 4800, 141, 132, 50, "nvlink4", "NVIDIA H200 SXM data sheet, dense"},
      {"b200", 1100, 2250, 80, 8000, 192, 148, 126, "nvlink5", "NVIDIA B200 data sheet, dense"},
      {"l40s", 183, 362, 91.6, 864, 48, 142, 96, "pcie4", "NVIDIA L40S data sheet, dense"},
      {"rtx4090", 82.6, 165, 82.6, 1008, 24, 128, 72, "pcie4", "NVIDIA Ada white paper, dense"},
      {"rtx4070ti-super", 44, 88, 44, 672, 16, 66, 48, "pcie4", "NVIDIA Ada white paper, dense"},
  };
  return kinds;
}

const GpuKind* gpu_kind_of(std::string_view device_name) {
  const std::string name = joined(words_of(device_name));
  for (const GpuKind& kind : gpu_kinds())
    if (name.find(joined(words_of(kind.name))) != std::string::npos) return &kind;
  return nullptr;
}

double tflops_of(const GpuKind& gpu, std::string_view math) {
  if (math == "bf16" || math == "fp16") return gpu.bf16_tflops;
  return math == "tf32" ? gpu.tf32_tflops : gpu.fp32_tflops;
}

std::optional<double> peak_flops(const std::vector<std::string>& names, int64_t devices, std::string_view math) {
  if (names.empty() || static_cast<int64_t>(names.size()) != devices) return std::nullopt;
  double peak = 0;
  for (const std::string& name : names) {
    const GpuKind* const kind = same_kind(name);
    if (!kind) return std::nullopt;
    peak += tflops_of(*kind, math) * 1e12;
  }
  return peak;
}

}  // namespace amdahl
