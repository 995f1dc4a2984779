#include <fmt/format.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "files/npz.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr std::string_view kEnding = ".npy";

struct DiscardArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, DiscardArchive>;

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", origin, what), "write it with numpy.savez");
}

std::string text_of(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

std::string read_entry(zip_t* archive, zip_uint64_t index, const zip_stat_t& stat, const std::string& origin) {
  const std::unique_ptr<zip_file_t, CloseEntry> entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) refuse(origin, zip_strerror(archive));
  // Maximum expansion of deflate: memory is reserved in advance only for sizes that the compressed bytes can produce.
  constexpr zip_uint64_t kMostExpansion = 1032;
  std::string bytes;
  if (stat.size / kMostExpansion <= stat.comp_size) bytes.reserve(stat.size);
  char block[1 << 16];
  zip_int64_t got = 0;
  while (bytes.size() <= stat.size && (got = zip_fread(entry.get(), block, sizeof block)) > 0)
    bytes.append(block, static_cast<size_t>(got));
  if (got < 0) refuse(origin, fmt::format("byte {} of the array: {}", bytes.size(), zip_file_strerror(entry.get())));
  if (bytes.size() != stat.size)
    refuse(origin, fmt::format("{} bytes, where the archive names {}", bytes.size(), stat.size));
  return bytes;
}

/// `bytes` receive the content of a pipe, whose archive directory is at its end; they must outlive the archive.
Archive open_archive(FileDescriptor& file, std::string& bytes, const std::string& path) {
  int code = 0;
  zip_t* archive = nullptr;
  if (::lseek(file.get(), 0, SEEK_CUR) >= 0) {
    archive = zip_fdopen(file.get(), ZIP_CHECKCONS, &code);
    if (archive != nullptr) file.release();  // the archive owns it now
  } else {
    bytes = read_open_file(file, path, Cause::usage, kMostDataBytes);
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
    if (source != nullptr) archive = zip_open_from_source(source, ZIP_CHECKCONS | ZIP_RDONLY, &error);
    if (source != nullptr && archive == nullptr) zip_source_free(source);
    code = zip_error_code_zip(&error);
    zip_error_fini(&error);
  }
  if (archive == nullptr) refuse(path, fmt::format("this is not a whole .npz file: {}", text_of(code)));
  return Archive(archive);
}

void add_entry(zip_t* archive, const std::string& path, const FileArray& array, const std::string& header) {
  zip_buffer_fragment_t fragments[2];
  // libzip only reads these, although it takes pointers to non-const bytes.
  fragments[0] = {reinterpret_cast<zip_uint8_t*>(const_cast<char*>(header.data())), header.size()};
  fragments[1] = {static_cast<zip_uint8_t*>(const_cast<void*>(array.data)), num_bytes(array)};
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_fragment_create(fragments, fragments[1].length == 0 ? 1 : 2, 0, &error);
  zip_error_fini(&error);
  if (source == nullptr) throw Error(Cause::out_of_memory, fmt::format("{}: no memory to write it", path), "free some");
  const zip_int64_t index =
      zip_file_add(archive, (array.name + std::string(kEnding)).c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    throw Error(Cause::usage, fmt::format("{}: array '{}': {}", path, array.name, zip_strerror(archive)),
                "give every array a name of its own");
  }
  zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
}

}  // namespace

Availability npz_availability() { return {true, {}, {}}; }

std::string npz_version() { return fmt::format("libzip {}", zip_libzip_version()); }

std::vector<NpzEntry> read_npz(const std::string& path) {
  FileDescriptor file = open_file(path, Cause::usage);
  std::string bytes;
  const Archive archive = open_archive(file, bytes, path);
  std::vector<NpzEntry> entries;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  constexpr zip_int64_t kMostArrays = 1000;
  if (count > kMostArrays) refuse(path, fmt::format("{} arrays are in it, more than {}", count, kMostArrays));
  double total_bytes = 0;
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(std::max<zip_int64_t>(count, 0)); ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    if (zip_stat_index(archive.get(), i, 0, &stat) != 0) refuse(path, zip_strerror(archive.get()));
    std::string name = stat.name;
    if (!name.ends_with(kEnding)) refuse(path, fmt::format("'{}' in it is no .npy file", name));
    const std::string origin = fmt::format("{}, {}", path, name);
    name.resize(name.size() - kEnding.size());
    total_bytes += static_cast<double>(stat.size);
    require_memory(total_bytes, path, "fewer arrays");
    entries.push_back({name, parse_npy(read_entry(archive.get(), i, stat, origin), origin)});
  }
  if (entries.empty()) refuse(path, "there is no array in it");
  return entries;
}

namespace {

struct FreeSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Source = std::unique_ptr<zip_source_t, FreeSource>;

[[noreturn]] void no_archive(const std::string& path, zip_error_t* error) {
  const bool memory = zip_error_code_zip(error) == ZIP_ER_MEMORY;
  throw Error(memory ? Cause::out_of_memory : Cause::internal,
              fmt::format("{}: the archive cannot be made: {}", path, zip_error_strerror(error)),
              memory ? "a .npy file, which needs no second copy in memory" : "a .npy file");
}

/// Builds the archive in memory.
Source make_archive(const std::string& path, const std::vector<FileArray>& arrays) {
  zip_error_t error;
  zip_error_init(&error);
  Source source(zip_source_buffer_create(nullptr, 0, 0, &error));
  if (source == nullptr) no_archive(path, &error);
  Archive archive(zip_open_from_source(source.get(), ZIP_TRUNCATE, &error));
  if (archive == nullptr) no_archive(path, &error);
  zip_source_keep(source.get());     // the archive owns one reference
  std::vector<std::string> headers;  // read by zip_close: they must live until then
  headers.reserve(arrays.size());
  for (const FileArray& array : arrays) add_entry(archive.get(), path, array, headers.emplace_back(npy_header(array)));
  if (zip_close(archive.get()) != 0) no_archive(path, zip_get_error(archive.get()));
  static_cast<void>(archive.release());  // already closed
  return source;
}

}  // namespace

void write_npz(const std::string& path, const std::vector<FileArray>& arrays) {
  const Source source = make_archive(path, arrays);
  if (zip_source_open(source.get()) != 0) no_archive(path, zip_source_error(source.get()));
  std::vector<char> block(1 << 20);
  write_atomic(path, [&]() -> std::optional<std::string_view> {
    const zip_int64_t got = zip_source_read(source.get(), block.data(), block.size());
    if (got < 0) no_archive(path, zip_source_error(source.get()));
    if (got == 0) return std::nullopt;
    return std::string_view(block.data(), static_cast<size_t>(got));
  });
}

}  // namespace amdahl
