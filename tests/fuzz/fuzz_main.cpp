// Fuzzes one parser with damaged copies of its corpus, in a process of its own that may end in any way.
//   fuzz_tests --list [CORPORA]      the targets; with the folder of all corpora an error when one of them is missing
//   fuzz_tests TARGET --corpus DIR [--mutations N | --seconds S] [--seed N] [--output DIR]
//   fuzz_tests TARGET --file FILE [--mutations N]
// First the corpus as it is, then mutations. With FUZZ_SECONDS in the environment: that long, with FUZZ_SEED or a seed
// of the moment. A defect is an exception that is no amdahl::Error, Error{internal}, a crash, 2 s of processor time for
// one input, or 512 MiB of memory beyond those in use before. The input is then in DIR (default: here), and the exit
// code is 1.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "files/whole_file.h"
#include "fuzz_child.h"
#include "mutator.h"
#include "targets.h"

namespace amdahl::fuzz {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string target, corpus, file, output = ".";
  uint64_t mutations = 10000, seed = 1;
  double seconds = 0;  // 0: as many as `mutations`
};

template <class Number>
Number number_of(const std::string& name, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < Number{})
    throw std::invalid_argument(fmt::format("{} {}: a number was expected", name, text));
  return value;
}

Options parse_options(const std::vector<std::string>& words) {
  Options options;
  if (const char* seconds = std::getenv("FUZZ_SECONDS"); seconds != nullptr && *seconds != '\0') {
    options.seconds = number_of<double>("FUZZ_SECONDS", seconds);
    const char* seed = std::getenv("FUZZ_SEED");
    options.seed = seed && *seed ? std::strtoull(seed, nullptr, 10) : std::random_device()();
  }
  options.target = words.at(0);
  for (size_t i = 1; i < words.size(); i += 2) {
    const std::string& name = words[i];
    if (i + 1 == words.size()) throw std::invalid_argument(name + " lacks its value");
    const std::string& value = words[i + 1];
    if (name == "--corpus")
      options.corpus = value;
    else if (name == "--file")
      options.file = value;
    else if (name == "--output")
      options.output = value;
    else if (name == "--seed")
      options.seed = number_of<uint64_t>(name, value);
    else if (name == "--seconds")
      options.seconds = number_of<double>(name, value);
    else if (name == "--mutations")
      options.mutations = number_of<uint64_t>(name, value);
    else
      throw std::invalid_argument(name + " is unknown");
  }
  return options;
}

/// In the order of their names, so that a seed means the same everywhere.
std::vector<std::string> read_corpus(const Options& options) {
  std::vector<fs::path> paths;
  if (!options.file.empty()) paths.emplace_back(options.file);
  if (!options.corpus.empty())
    for (const fs::directory_entry& entry : fs::directory_iterator(options.corpus)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> files;
  files.reserve(paths.size());
  for (const fs::path& path : paths) files.push_back(read_file(path, Cause::usage));
  if (files.empty()) throw std::invalid_argument("no file to start from: --corpus DIR or --file FILE");
  return files;
}

/// Gone at the end, with what the child has left in it.
class WorkFolder {
 public:
  WorkFolder() {
    const fs::path memory = "/dev/shm";  // on a disk a file for each input would take most of the time
    std::string name = ((fs::exists(memory) ? memory : fs::temp_directory_path()) / "amdahl-fuzz-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder can be made");
    path_ = name;
    setenv("TMPDIR", name.c_str(), 1);
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

 private:
  fs::path path_;
};

int list(const std::vector<std::string>& words) {
  int missing = 0;
  for (const Target& target : targets()) {
    const bool there = words.size() < 2 || !fs::is_empty(fs::path(words[1]) / target.name);
    std::printf("%.*s%s\n", static_cast<int>(target.name.size()), target.name.data(), there ? "" : ": no corpus");
    missing += there ? 0 : 1;
  }
  return missing == 0 ? 0 : 1;
}

int run(const Options& options) {
  const Target* target = find_target(options.target);
  if (target == nullptr) throw std::invalid_argument(options.target + " is no target; see --list");
  const std::vector<std::string> corpus = read_corpus(options);
  std::printf("%s: seed %llu, %zu files\n", options.target.c_str(), static_cast<unsigned long long>(options.seed),
              corpus.size());
  std::fflush(stdout);
  const WorkFolder folder;
  Mutator mutator(corpus, options.seed);
  size_t next = 0;
  const auto source = [&] { return next < corpus.size() ? corpus[next++] : (++next, mutator.next()); };
  const uint64_t inputs = options.seconds > 0 ? UINT64_MAX : corpus.size() + options.mutations;
  const Outcome outcome = run_in_child(*target, source, {inputs, options.seconds});
  std::printf("%s: %llu inputs, %llu of them accepted, %.1f s\n", options.target.c_str(),
              static_cast<unsigned long long>(outcome.inputs), static_cast<unsigned long long>(outcome.accepted),
              outcome.seconds);
  if (outcome.defect.empty()) return 0;
  const fs::path path =
      fs::path(options.output) / fmt::format("fuzz-{}-{}-{}.input", options.target, options.seed, outcome.inputs);
  write_atomic(path, outcome.input);
  std::printf("%s: DEFECT: %s\ninput %llu of seed %llu, kept as %s\nagain: fuzz_tests %s --file %s --mutations 0\n",
              options.target.c_str(), outcome.defect.c_str(), static_cast<unsigned long long>(outcome.inputs),
              static_cast<unsigned long long>(options.seed), path.c_str(), options.target.c_str(), path.c_str());
  return 1;
}

}  // namespace
}  // namespace amdahl::fuzz

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty()) throw std::invalid_argument("a target, or --list");
    return words[0] == "--list" ? amdahl::fuzz::list(words) : amdahl::fuzz::run(amdahl::fuzz::parse_options(words));
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "fuzz_tests: %s\n", problem.what());
    return 2;
  }
}
