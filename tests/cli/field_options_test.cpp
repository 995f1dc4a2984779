// Fields that texts of the library name: each is an option of the program, of the command that the text says.
#include "cli/field_options.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>

#include "cli/commands.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

const CommandNode& program() {
  static CLI::App app{"amdahl"};
  static const std::vector<Command> commands = define_commands(app);
  static const CommandNode root = command_tree(app);
  return root;
}

/// "sensor bench"; empty for the program itself.
std::string name_of(const CommandNode& command) {
  const std::string name = command.name();
  return name.substr(std::min(name.size(), program().name().size() + 1));
}

bool has_option(const CommandNode& command, const std::string& option) {
  return std::any_of(command.options.begin(), command.options.end(), [&](const OptionNode& node) {
    return std::find(node.names.begin(), node.names.end(), option) != node.names.end();
  });
}

/// Of SamplingOptions: no command samples a caller's function.
constexpr std::string_view kOfTheLibrary[] = {"least_sample_us", "least_warmup_calls"};

/// Whether users of some command know the reference: of the one it names, or of one whose texts it can be in.
bool is_known(const std::vector<FieldWord>& words) {
  if (std::find(std::begin(kOfTheLibrary), std::end(kOfTheLibrary), words.front().name) != std::end(kOfTheLibrary))
    return true;
  for (const CommandNode* command : all_commands(program())) {
    const std::string text = option_words(words, program(), name_of(*command));
    if (text.starts_with(program().name() + " ")) return true;
    if (!text.empty() && has_option(*command, text.substr(0, text.find(' ')))) return true;
  }
  return false;
}

std::map<std::string, std::vector<FieldWord>> g_found;  // by their text

std::string collect(const std::vector<FieldWord>& words) {
  std::string text;
  for (const FieldWord& word : words) text += " " + word.name + (word.value ? "=" + *word.value : "");
  if (words.front().name != program().name()) g_found[text] = words;  // `amdahl study`, a command
  return {};
}

/// References in literals of the library, those that follow each other as one.
std::map<std::string, std::vector<FieldWord>> references_in_sources() {
  const std::regex comment(R"((^|\n)\s*//[^\n]*)"), gap(R"("\s*\n\s*")"), literal(R"re("((?:[^"\\\n]|\\.)*)")re");
  set_field_namer(collect);
  for (const char* top : {"src", "include"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(AMDAHL_SOURCE_DIR "/") + top)) {
      const std::string path = entry.path().string(), kind = entry.path().extension().string();
      if (path.find("/src/cli/") != std::string::npos || (kind != ".cpp" && kind != ".h" && kind != ".cu")) continue;
      std::ifstream file(path);
      std::string text{std::istreambuf_iterator<char>(file), {}};
      text = std::regex_replace(std::regex_replace(text, comment, "\n"), gap, "");
      for (std::sregex_iterator match(text.begin(), text.end(), literal), end; match != end; ++match)
        named((*match)[1].str());
    }
  set_field_namer(nullptr);
  return g_found;
}

TEST(FieldOptions, EveryReferenceIsAnOption) {
  const auto references = references_in_sources();
  EXPECT_GT(references.size(), 100u);
  for (const auto& [text, words] : references) EXPECT_TRUE(is_known(words)) << "no command has" << text;
}

TEST(FieldOptions, EveryRowIsAnOption) {
  for (const FieldOption& row : field_options()) {
    const std::string field(row.field);
    if (row.command.empty()) {
      EXPECT_TRUE(is_known({{field}})) << field;
      continue;
    }
    bool found = false;
    for (const CommandNode* command : all_commands(program()))
      found = found || (name_of(*command) == row.command && has_option(*command, std::string(row.option)) &&
                        (row.in_command.empty() || has_option(*command, std::string(row.in_command))));
    EXPECT_TRUE(found) << row.command << " " << row.option;
  }
}

TEST(FieldOptions, AreWrittenAsTheyAreTyped) {
  const auto text = [](const std::vector<FieldWord>& words, const char* command = "study") {
    return option_words(words, program(), command);
  };
  EXPECT_EQ(text({{"batch_sizes"}}), "--batch-sizes");
  EXPECT_EQ(text({{"strategy", "ddp"}}), "--plan ddp");
  EXPECT_EQ(text({{"study"}, {"resume"}}), "amdahl study --resume");
  EXPECT_EQ(text({{"sensor"}, {"bench"}, {"op", "fuse"}, {"type", "f16"}}),
            "amdahl sensor bench --op fuse --dtype f16");
  EXPECT_EQ(text({{"links"}, {"tests", "pairs"}}), "amdahl links -t pairs");
  EXPECT_EQ(text({{"tests", "pairs"}}), "--test pairs");
  EXPECT_EQ(text({{"overlap", "false"}}), "--plan no-overlap");
  EXPECT_EQ(text({{"bucket_bytes", "26214400"}}), "--plan bucket-mb=25");
  EXPECT_EQ(text({{"bucket_bytes", "N"}}), "--plan bucket-mb=N");
  EXPECT_EQ(text({{"targets"}}), "--target");
  EXPECT_EQ(text({{"targets"}}, "sensor bench"), "--targets");
  EXPECT_EQ(text({{"strategy", "zero1"}, {"recompute", "block"}}), "--plan zero1,recompute=block");
  EXPECT_EQ(text({{"accumulate"}}), "--plan mN");
  EXPECT_EQ(text({{"window", "96"}}), "--data-options window=96");
  EXPECT_EQ(text({{"devices"}}, "report"), "--assume-devices");
  EXPECT_EQ(text({{"batch_size"}}, ""), "--batch-size");
}

TEST(FieldOptions, WhatNoCommandHasIsNotNamed) {
  EXPECT_EQ(option_words({{"no_such_field"}}, program(), "study"), "");
  EXPECT_EQ(option_words({{"study"}, {"epochs"}}, program(), "train"), "");
  EXPECT_EQ(option_words({{"study"}, {"runs"}, {"epochs"}}, program(), "train"), "");
  EXPECT_EQ(option_words({{"amdahl"}, {"study"}}, program(), "train"), "");
}

TEST(CollectivesArguments, AreOptionsOfTheCommand) {
  CollectivesConfig sweep;
  sweep.gpus = {0, 2};
  sweep.graph = 3;
  sweep.output_dir = "a b";
  const std::vector<std::string> words = collectives_arguments(sweep);
  ASSERT_EQ(words.front(), "collectives");
  for (const CommandNode* command : all_commands(program())) {
    if (name_of(*command) != words.front()) continue;
    for (const std::string& word : words) EXPECT_TRUE(!word.starts_with("--") || has_option(*command, word)) << word;
  }
  EXPECT_EQ(words.back(), "a b");
}

}  // namespace
}  // namespace amdahl::cli
