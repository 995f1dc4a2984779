// Files are replaced whole or not at all, wherever their names lead; what is read has limits.
#include "files/whole_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fcntl.h>

#include <cerrno>
#include <random>
#include <set>
#include <thread>

#include "errors.h"
#include "files/gzip.h"
#include "files/output_place.h"
#include "temporary_folder.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

void expect_error(const Error& error, Cause cause, const std::string& word) {
  EXPECT_EQ(error.cause(), cause) << error.line();
  EXPECT_NE(error.line().find(word), std::string::npos) << word << " in " << error.line();
  EXPECT_FALSE(error.remedy().empty()) << error.line();
}

TEST(WriteAtomic, NoTemporaryNameCanBePrepared) {
  const TestFolder folder;
  const fs::path file = folder.path() / "out";
  std::set<std::string> names;
  for (int trial = 0; trial < 50; ++trial) {
    int pieces = 0;
    write_atomic(file, [&]() -> std::optional<std::string_view> {
      for (const auto& entry : fs::directory_iterator(folder.path()))
        if (entry.path() != file) names.insert(entry.path().filename().string());
      return ++pieces > 1 ? std::nullopt : std::optional<std::string_view>("x");
    });
  }
  EXPECT_EQ(names.size(), 50u) << "every temporary file has a name of its own";
  for (const std::string& name : names) EXPECT_TRUE(name.starts_with(std::string("out") + kTemporaryMark)) << name;
}

TEST(FileErrors, SayWhatIsWrongWithTheMachine) {
  const auto causes = [](int error_number) {
    return std::pair{read_error("f", Cause::store_corrupt, error_number).cause(),
                     write_error("f", "write", error_number).cause()};
  };
  EXPECT_EQ(causes(EMFILE), std::pair(Cause::environment_missing, Cause::environment_missing));
  EXPECT_EQ(causes(ENFILE), std::pair(Cause::environment_missing, Cause::environment_missing));
  EXPECT_EQ(causes(EIO), std::pair(Cause::device_error, Cause::device_error));
  EXPECT_EQ(causes(ENOMEM), std::pair(Cause::out_of_memory, Cause::out_of_memory));
  EXPECT_EQ(causes(ENOSPC), std::pair(Cause::store_corrupt, Cause::disk_full));
  EXPECT_EQ(causes(EACCES), std::pair(Cause::store_corrupt, Cause::usage));
}

TEST(WriteAtomic, PiecesFollowEachOtherAndNothingIsLeftBehind) {
  const TestFolder folder;
  std::mt19937 random(81);
  for (int trial = 0; trial < 30; ++trial) {
    std::string whole;
    std::vector<std::string> pieces(random() % 5);
    for (std::string& piece : pieces) {
      piece.resize(random() % 3000);
      for (char& c : piece) c = static_cast<char>(random());
      whole += piece;
    }
    write_atomic(folder / "out", std::vector<std::string_view>(pieces.begin(), pieces.end()));
    EXPECT_EQ(folder.read("out"), whole);
    EXPECT_EQ(read_file(folder / "out", Cause::usage), whole);
    EXPECT_EQ(folder.entries(), 1u);
  }
}

TEST(WriteAtomic, AFailureInTheMiddleKeepsTheOldFile) {
  const TestFolder folder;
  folder.write("out", "old");
  int calls = 0;
  const NextPiece next = [&]() -> std::optional<std::string_view> {
    if (++calls == 3) throw Error(Cause::interrupted, "stopped", "again");
    return "new";
  };
  EXPECT_EQ(error_of([&] { write_atomic(folder / "out", next); }).cause(), Cause::interrupted);
  EXPECT_EQ(folder.read("out"), "old");
  EXPECT_EQ(folder.entries(), 1u) << "the temporary file is removed";
}

TEST(WriteAtomic, LinksAndPermissionsStay) {
  const TestFolder folder;
  folder.write("target", "old");
  fs::permissions(folder / "target", fs::perms{0640});
  fs::create_symlink("target", folder / "link");
  fs::create_symlink("link", folder / "second");
  fs::create_symlink("not-there", folder / "dangling");
  write_atomic(folder / "second", "new");
  write_atomic(folder / "dangling", "first");
  EXPECT_TRUE(fs::is_symlink(folder / "second") && fs::is_symlink(folder / "link"));
  EXPECT_EQ(folder.read("target"), "new");
  EXPECT_EQ(fs::status(folder / "target").permissions(), fs::perms{0640});
  EXPECT_EQ(folder.read("not-there"), "first");
}

TEST(WriteAtomic, RefusesWhatIsNoFile) {
  const TestFolder folder;
  fs::create_directory(folder / "folder");
  fs::create_symlink("loop", folder / "loop");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = (folder / "socket").string();
  name.copy(address.sun_path, sizeof address.sun_path - 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  for (const auto& [path, word] : {std::pair("folder", "this is a folder"),
                                   {"loop", "symbolic links"},
                                   {"socket", "this is a socket"},
                                   {"no/such/folder/out", "No such file"},
                                   {"target/out", "Not a directory"}}) {
    folder.write("target", "a file");
    expect_error(error_of([&, p = path] { write_atomic(folder / p, "x"); }), Cause::usage, word);
  }
  ::close(socket);
  const OutputPlace nowhere = output_place(folder / "no/such/out");
  EXPECT_FALSE(writable(nowhere).ok);
  EXPECT_NE(writable(nowhere).reason.find("there is no folder"), std::string::npos);
  EXPECT_TRUE(writable(output_place(folder / "new")).ok);
  EXPECT_FALSE(writable(output_place(folder / "folder")).ok);
  EXPECT_EQ(folder.entries(), 4u) << "no temporary file stays: folder, loop, socket, target";
}

TEST(WriteAtomic, AFullDeviceIsAFullDisk) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  expect_error(error_of([] { write_atomic("/dev/full", "x"); }), Cause::disk_full, "No space left");
  EXPECT_NO_THROW(write_atomic("/dev/null", "x"));
  EXPECT_TRUE(output_place("/dev/null").is_stream());
}

TEST(WriteAtomic, APipeGetsAll) {
  const TestFolder folder;
  const std::string pipe = (folder / "pipe").string(), content(1 << 20, 'p');
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_file(pipe, Cause::usage, kMostDataBytes); });
  write_atomic(pipe, content);
  reader.join();
  EXPECT_EQ(got.size(), content.size());
  EXPECT_TRUE(fs::is_fifo(pipe)) << "it was not replaced";
}

TEST(WriteAtomic, DescriptorsOfThisProcessAreWrittenTo) {
  const TestFolder folder;
  const int fd = ::open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write_all(fd, "before "), 0);
  write_atomic(fmt::format("/dev/fd/{}", fd), "after");
  ::close(fd);
  EXPECT_EQ(folder.read("out"), "before after");
  const int read_only = ::open((folder / "out").c_str(), O_RDONLY);
  EXPECT_FALSE(writable(output_place(fmt::format("/dev/fd/{}", read_only))).ok);
  ::close(read_only);
  EXPECT_FALSE(writable(output_place("/proc/self/fd/999999")).ok);
}

TEST(ReadFile, HasALimitAndNamesTheFile) {
  const TestFolder folder;
  const std::string path = folder.write("data", std::string(1000, 'x'));
  EXPECT_EQ(read_file(path, Cause::usage, 1000).size(), 1000u);
  expect_error(error_of([&] { static_cast<void>(read_file(path, Cause::data_corrupt, 999)); }), Cause::data_corrupt,
               "data");
  expect_error(error_of([&] { static_cast<void>(read_file(folder / "none", Cause::usage)); }), Cause::usage, "none");
  expect_error(error_of([&] { static_cast<void>(read_file(folder.path(), Cause::usage)); }), Cause::usage, "directory");
  folder.write("empty", "");
  EXPECT_EQ(read_file(folder / "empty", Cause::usage), "");
  expect_error(error_of([] { static_cast<void>(read_file("/dev/zero", Cause::usage, kMostDataBytes)); }), Cause::usage,
               "/dev/zero");
}

TEST(ReadFile, MoreThanTheMemoryIsRefusedBefore) {
  EXPECT_NO_THROW(require_memory(1e6, "a table", "a smaller one"));
  expect_error(error_of([] { require_memory(1e18, "a table", "a smaller one"); }), Cause::out_of_memory, "a table");
  const TestFolder folder;
  const std::string path = (folder / "sparse").string();
  folder.write("sparse", "");
  if (::truncate(path.c_str(), off_t{1} << 50) != 0) GTEST_SKIP() << "no file of a petabyte here";
  EXPECT_EQ(error_of([&] { static_cast<void>(read_file(path, Cause::usage, kMostDataBytes)); }).cause(),
            Cause::out_of_memory);
}

std::string random_text(std::mt19937& random) {
  std::string text(random() % 200'000, ' ');
  const uint32_t kinds = 1 + random() % 256;  // from one repeated byte to noise
  for (char& c : text) c = static_cast<char>(random() % kinds);
  return text;
}

TEST(Gzip, ComesBackWhole) {
  std::mt19937 random(82);
  for (int trial = 0; trial < 25; ++trial) {
    const std::string text = trial == 0 ? "" : random_text(random), packed = gzip(text);
    EXPECT_TRUE(is_gzip(packed));
    EXPECT_EQ(gunzip(packed, "x", Cause::usage, text.size()), text) << "the limit is the size itself";
    if (!text.empty())
      expect_error(error_of([&] { static_cast<void>(gunzip(packed, "x", Cause::usage, text.size() - 1)); }),
                   Cause::usage, "x: more than");
  }
}

TEST(Gzip, DamageIsNeverRead) {
  std::mt19937 random(83);
  const std::string text = "records of a run, records of a run, 0123456789, records of a run\n", packed = gzip(text);
  for (size_t cut = 0; cut < packed.size(); ++cut)
    expect_error(error_of([&] { static_cast<void>(gunzip(packed.substr(0, cut), "f", Cause::data_corrupt, 1000)); }),
                 Cause::data_corrupt, "f: ");
  for (size_t at = 10; at < packed.size(); ++at) {  // the bytes before are name, time and system
    std::string bent = packed;
    bent[at] = static_cast<char>(bent[at] ^ (1 << random() % 8));
    std::string read = "nothing";  // a bit that only fills the last byte may be any
    const Error error = error_of([&] { read = gunzip(bent, "f", Cause::data_corrupt, 1000); });
    EXPECT_TRUE(read == text || error.cause() == Cause::data_corrupt) << at;
  }
  expect_error(error_of([&] { static_cast<void>(gunzip(packed + "x", "f", Cause::data_corrupt, 1000)); }),
               Cause::data_corrupt, "something follows");
}

TEST(Gzip, NamesAndTextFiles) {
  const TestFolder folder;
  folder.write("a.json.gz", gzip("{}"));
  folder.write("b.json", "{}");
  for (const char* name : {"a.json.gz", "b.json"}) {
    EXPECT_EQ(read_text_file(folder / name, Cause::usage), "{}");
    EXPECT_TRUE(is_json_name(folder / name));
  }
  EXPECT_EQ(unpacked_name("x/run.jsonl.gz"), fs::path("x/run.jsonl"));
  EXPECT_EQ(unpacked_name("x.gz/run.jsonl"), fs::path("x.gz/run.jsonl"));
  EXPECT_FALSE(is_json_name("x.gz"));
  EXPECT_FALSE(is_json_name("json"));
}

}  // namespace
}  // namespace amdahl
