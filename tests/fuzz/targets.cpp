#include "targets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "amdahl/sensor.h"
#include "files/npy.h"
#include "files/safetensors.h"
#include "files/token_file.h"
#include "files/whole_file.h"
#include "sensor/files/ply.h"
#include "spec/doctor_file.h"
#include "spec/json.h"
#include "spec/measurements.h"
#include "spec/rank_report.h"
#include "spec/run_folder.h"
#include "spec/toml_files.h"
#include "spec/trace_json.h"
#include "stored_zip.h"
#include "train/checkpoint.h"
#include "train/csv.h"
#include "train/token_dataset.h"

namespace amdahl::fuzz {
namespace {

/// A file for parsers that read from a path, in a folder of this process that goes with it.
class InputFile {
 public:
  InputFile() {
    std::string name = (std::filesystem::temp_directory_path() / "amdahl-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder can be made");
    folder_ = name;
  }
  ~InputFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string with(std::string_view bytes, std::string_view ending) {
    const std::string path = folder_ / ("input" + std::string(ending));
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.get() < 0 || write_all(file.get(), bytes) != 0) throw std::runtime_error(path + " cannot be written");
    return path;
  }

 private:
  std::filesystem::path folder_;
};

std::string file_of(std::string_view bytes, std::string_view ending) {
  static InputFile file;
  return file.with(bytes, ending);
}

/// What was read is written and read again: the same, or something was lost.
template <class Write, class Read>
void expect_round_trip(const std::string& text, Write&& write, Read&& read) {
  if (write(read(text, "written")) != text)
    throw std::logic_error("written, read and written again it differs:\n" + text);
}

void parse_csv(std::string_view bytes) {
  CsvOptions options;
  options.path = file_of(bytes, ".csv");
  options.target_columns = {"y"};
  using Missing = CsvOptions::Missing;
  for (const Missing missing : {Missing::refuse, Missing::drop_row, Missing::mean}) {
    options.missing = missing;
    try {
      const Dataset data = load_csv(options);
      if (data.features.size() != static_cast<size_t>(data.num_rows * data.input_width))
        throw std::logic_error("the features are no table");
    } catch (const Error&) {
      if (missing == Missing::mean) throw;
    }
  }
}

void parse_records(std::string_view bytes) {
  const RunContents run = read_run(file_of(bytes, ".jsonl"));
  for (const Record& record : run.records) expect_round_trip(record_to_json(record), record_to_json, record_from_json);
}

void parse_weight_index(std::string_view bytes) { shards_from_json(bytes, "input"); }

void parse_model(std::string_view bytes) {
  expect_round_trip(model_to_json(model_from_json(bytes, "input")), model_to_json, model_from_json);
}

void parse_machine(std::string_view bytes) {
  expect_round_trip(machine_to_json(machine_from_json(bytes, "input")), machine_to_json, machine_from_json);
}

void parse_summary(std::string_view bytes) {
  expect_round_trip(summary_to_json(summary_from_json(bytes, "input")), summary_to_json, summary_from_json);
}

void parse_trace(std::string_view bytes) { trace_from_json(bytes, "input"); }
void parse_doctor(std::string_view bytes) { doctor_from_json(bytes, "input"); }
void parse_prices(std::string_view bytes) { prices_from_toml(bytes, "input"); }
void parse_gpu_kind(std::string_view bytes) { gpu_kind_from_toml(bytes, "input"); }
void parse_ply_cloud(std::string_view bytes) { parse_ply(bytes, "input"); }
void parse_npy_cloud(std::string_view bytes) { load_point_cloud(file_of(bytes, ".npy")); }
/// As rows of four floats, whatever the numbers look like, and as the name and the numbers say.
void parse_kitti(std::string_view bytes) {
  SensorFileOptions options;
  options.bin_columns = 4;
  try {
    load_point_cloud(file_of(bytes, ".bin"), options);
  } catch (const Error&) {
  }
  load_point_cloud(file_of(bytes, bytes.size() % 20 == 0 ? ".pcd.bin" : ".bin"));
}
void parse_trajectories(std::string_view bytes) { load_trajectories(file_of(bytes, ".csv")); }

/// As it is, and with the checksums that its arrays have now: else no changed array would get past them.
void parse_npz(std::string_view bytes) {
  try {
    load_trajectories(file_of(bytes, ".npz"));
  } catch (const Error&) {
    load_trajectories(file_of(with_checksums(std::string(bytes)), ".npz"));
  }
}

void parse_tokens(std::string_view bytes) {
  const TokenFile file = parse_token_file(bytes, "input");
  if (file.header_bytes + file.token_bytes * file.tokens.size() != bytes.size())
    throw std::logic_error("bytes are left");
  make_token_dataset({"input", file.tokens, 0, {}, file.header_bytes, file.token_bytes}, {.steps = 3});
}

/// What is read is written and read again: the same tensors and metadata.
void parse_tensors(std::string_view bytes) {
  const SafeTensors file = parse_safetensors(bytes, "input");
  std::string again = safetensors_header(file.tensors, file.metadata);
  for (const SafeTensor& tensor : file.tensors) again += tensor.data;
  const SafeTensors read = parse_safetensors(again, "written");
  bool same = read.metadata == file.metadata && read.tensors.size() == file.tensors.size();
  for (const SafeTensor& tensor : file.tensors) {
    const SafeTensor* other = read.find(tensor.name);
    same = same && other && other->dtype == tensor.dtype && other->shape == tensor.shape && other->data == tensor.data;
  }
  if (!same) throw std::logic_error("written and read again it differs");
}

/// What passes the digests is, byte for byte, what was written.
void parse_checkpoint_file(std::string_view bytes) {
  const Checkpoint checkpoint = parse_checkpoint(bytes, "input");
  std::vector<std::string> storage;
  std::string again;
  for (const std::string_view piece : checkpoint_pieces(checkpoint, storage)) again += piece;
  if (again != bytes) throw std::logic_error("another file passed its digests");
}

void parse_rank_report(std::string_view bytes) { rank_report_from_json(bytes, "input"); }

/// All that compare and cost read: the contents tell which format it is.
void parse_measurements(std::string_view bytes) { read_measurements(file_of(bytes, ".json")); }

constexpr Target kTargets[] = {
    {"csv", parse_csv},
    {"records", parse_records},
    {"model", parse_model},
    {"weight_index", parse_weight_index},
    {"prices", parse_prices},
    {"gpu_kind", parse_gpu_kind},
    {"ply", parse_ply_cloud},
    {"npy", parse_npy_cloud},
    {"npz", parse_npz},
    {"kitti", parse_kitti},
    {"machine", parse_machine},
    {"nccl_tests", parse_measurements},
    {"rccl_tests", parse_measurements},
    {"nvbandwidth", parse_measurements},
    {"robocache", parse_measurements},
    {"measurements", parse_measurements},
    {"trajectories", parse_trajectories},
    {"summary", parse_summary},
    {"trace", parse_trace},
    {"doctor", parse_doctor},
    {"tokens", parse_tokens},
    {"safetensors", parse_tensors},
    {"checkpoint", parse_checkpoint_file},
    {"rank_report", parse_rank_report},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kTargets), std::end(kTargets), [&](const Target& t) { return t.name == name; });
  return found == std::end(kTargets) ? nullptr : found;
}

}  // namespace amdahl::fuzz
