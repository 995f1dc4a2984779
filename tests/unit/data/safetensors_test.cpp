// The safetensors writer and reader: round trips, and what is refused.
#include "files/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "errors.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

std::string file_of(const std::string& header, std::string_view data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data);
}

void expect_tensors_refused(const std::string& bytes, const char* words) {
  const Error error = error_of([&] { parse_safetensors(bytes, "m.safetensors"); });
  EXPECT_EQ(error.cause(), Cause::data_corrupt) << error.line();
  EXPECT_NE(std::string(error.what()).find("m.safetensors: "), std::string::npos) << error.line();
  EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << words << " in " << error.line();
  EXPECT_FALSE(error.remedy().empty());
}

TEST(Safetensors, ReadWhatWasWritten) {
  const std::string path = testing::TempDir() + "amdahl_" + std::to_string(getpid()) + ".safetensors";
  const std::vector<NamedArray> arrays{{"layers.0.weight", {2, 3}, {1, -2, 3.5f, 0, 1e-30f, 6}},
                                       {"layers.0.bias", {2}, {7, 8}},
                                       {"nothing", {0, 4}, {}},
                                       {"a \"b\"\\\n\x01", {}, {9}}};
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"\ttext", "with \"quotes\""}};
  save_safetensors(path, arrays, metadata);
  const std::string bytes = read_file(path, Cause::usage);
  std::filesystem::remove(path);
  const SafeTensors file = parse_safetensors(bytes, path);
  EXPECT_EQ(file.metadata, metadata);
  EXPECT_EQ(file.header_bytes % 64, 0u);
  ASSERT_EQ(file.tensors.size(), arrays.size());
  for (const NamedArray& array : arrays) {
    const SafeTensor* tensor = file.find(array.name);
    ASSERT_NE(tensor, nullptr) << array.name;
    EXPECT_EQ(tensor->dtype, "F32");
    const NamedArray read = as_array(*tensor, path);
    EXPECT_EQ(read.shape, array.shape);
    EXPECT_EQ(read.values, array.values);
  }
  EXPECT_EQ(file.find("layers.1.weight"), nullptr);
  EXPECT_EQ(parse_safetensors(file_of("{}", ""), "empty").tensors.size(), 0u);
}

TEST(Safetensors, ReadHeadersOfOtherWriters) {
  const float values[] = {1, 2, 3};
  const std::string_view data(reinterpret_cast<const char*>(values), sizeof values);
  const std::string bytes = file_of(
      " {\"b\\u00e9\\ud83d\\ude00\" : {\"data_offsets\": [4, 12], \"shape\":[2 ,1], \"dtype\":\"F32\"},\n"
      "\"__metadata__\":{},\"a\\/\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}   ",
      data);
  const SafeTensors file = parse_safetensors(bytes, "other");
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "a/");  // in the order of the data
  EXPECT_EQ(file.tensors[1].name, "b\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(as_array(file.tensors[1], "other").values, (std::vector<float>{2, 3}));
  EXPECT_EQ(error_of([&] { as_array(file.tensors[0], "other"); }).cause(), Cause::data_corrupt);
}

TEST(Safetensors, RefuseCutOffFiles) {
  const NamedArray array{"w", {2}, {1, 2}};
  const std::string header = safetensors_header({as_tensor(array)}, {});
  const std::string bytes = header + std::string(as_tensor(array).data);
  EXPECT_EQ(parse_safetensors(bytes, "m").tensors.size(), 1u);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(error_of([&] { parse_safetensors(bytes.substr(0, size), "m"); }).cause(), Cause::data_corrupt) << size;
  expect_tensors_refused(bytes.substr(0, 5), "byte 5: the file is cut off");
  expect_tensors_refused(bytes.substr(0, 40), "goes beyond the end of the file");
  expect_tensors_refused(bytes.substr(0, bytes.size() - 1), "the file is cut off");
  expect_tensors_refused(bytes + "x", "the tensors end at byte 8 of the data, and the file at 9");
}

TEST(Safetensors, RefuseTensorsThatOverlapOrLeaveGaps) {
  const std::string data(16, '\0');
  const auto two = [&](const char* first, const char* second) {
    return file_of(std::string("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":") + first +
                       "},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + second + "}}",
                   data);
  };
  EXPECT_EQ(parse_safetensors(two("[0,8]", "[8,16]"), "m").tensors.size(), 2u);
  EXPECT_EQ(parse_safetensors(two("[8,16]", "[0,8]"), "m").tensors[0].name, "b");
  expect_tensors_refused(two("[0,8]", "[4,12]"), "tensor 'b' begins at byte 4 of the data, and overlaps");
  expect_tensors_refused(two("[0,8]", "[0,8]"), "overlaps");
  expect_tensors_refused(two("[0,8]", "[16,24]"), "bytes [16, 24) of 16");
  expect_tensors_refused(two("[8,0]", "[8,16]"), "bytes [8, 0)");
  expect_tensors_refused(two("[0,8]", "[8,12]"), "tensor 'b' of F32 [2] has 4 bytes");
  expect_tensors_refused(two("[4,12]", "[12,16]"), "4 bytes");
  expect_tensors_refused(
      file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", data.substr(0, 12)),
      "after a gap from byte 0");
}

TEST(Safetensors, RefuseBadHeaders) {
  const std::string entry = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  EXPECT_EQ(parse_safetensors(file_of("{\"a\":" + entry + "}", ""), "m").tensors.size(), 1u);
  const std::pair<std::string, const char*> bad[] = {
      {"", "byte 8, in the header: '{' was expected"},
      {"[]", "'{' was expected"},
      {"{} x", "something follows"},
      {"{\"a\":" + entry + ",}", "'\"' was expected"},
      {"{\"a\":" + entry, "'}' was expected"},
      {"{\"a\":" + entry + ",\"a\":" + entry + "}", "two tensors are named 'a'"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0]}}", "needs dtype, shape and data_offsets"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", "occurs twice"},
      {"{\"a\":{\"dtype\":\"Q7\",\"shape\":[0],\"data_offsets\":[0,0]}}", "unknown type 'Q7'"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,0]}}", "a size was expected"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,0]}}", "']' was expected"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0],\"x\":1}}", "'x' is no member"},
      {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,8],\"data_offsets\":[0,0]}}", "has 0 bytes"},
      {"{\"__metadata__\":{\"k\":1}}", "'\"' was expected"},
      {"{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", "'k' occurs twice"},
      {"{\"__metadata__\":{},\"__metadata__\":{}}", "two objects of metadata"},
      {"{\"a", "a string never ends"},
      {"{\"a\\", "a string never ends"},
      {"{\"\\q\":" + entry + "}", "is no escape"},
      {"{\"\\ud800\":" + entry + "}", "surrogate"},
      {"{\"\\u12\":" + entry + "}", "hexadecimal"},
      {"{\"\n\":" + entry + "}", "control character"},
  };
  for (const auto& [header, words] : bad) expect_tensors_refused(file_of(header, ""), words);
}

TEST(Safetensors, RefuseNamesThatCannotBeWritten) {
  const NamedArray array{"w", {1}, {1}};
  EXPECT_EQ(error_of([&] { save_safetensors("out.safetensors", {array, array}, {}); }).cause(), Cause::usage);
  EXPECT_EQ(error_of([&] { save_safetensors("out.bin", {array}, {}); }).cause(), Cause::usage);
  EXPECT_EQ(error_of([&] {
              save_safetensors("out.safetensors", {{"__metadata__", {1}, {1}}}, {});
            }).cause(),
            Cause::usage);
}

}  // namespace
}  // namespace amdahl
