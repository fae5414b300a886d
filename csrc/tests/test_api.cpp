// The C ABI: what it refuses, and that failures end in a message.
#include <doctest.h>

#include <array>
#include <string>

#include "tmol_plugin.h"

namespace {

const std::array<float, 3> kFloats = {1, 2, 3};
const tp_array kArray = {"floats", kFloats.data(), sizeof(kFloats)};

// What tp_tables_create says of arrays; "" if it takes them.
std::string complaint(const tp_array* arrays, int32_t n_arrays, int64_t error_size = 200) {
  std::array<char, 200> error = {};
  tp_tables* tables = tp_tables_create(arrays, n_arrays, error.data(), error_size);
  CHECK((tables == nullptr) == (error[0] != '\0' || error_size == 0));
  tp_tables_free(tables);
  return error.data();
}

}  // namespace

TEST_CASE("arrays that are no chemistry are refused, and the first that is missing is named") {
  CHECK(complaint(&kArray, 1) == "array 'block_type.class' is missing");
  CHECK(complaint(nullptr, 0) == "array 'block_type.class' is missing");
  const std::array<int32_t, 2> classes = {0, 0};
  const std::array<char, 8> name = {'A', 'L', 'A'};
  const std::array<int32_t, 2> offsets = {0, 3};
  const tp_array one[] = {{"block_type.class", classes.data(), sizeof classes},
                          {"class.name", name.data(), sizeof name},
                          {"block_type.atom_offset", offsets.data(), sizeof offsets}};
  CHECK(complaint(one, 3) == "array 'block_type.atom_offset' has 8 bytes, not those of 3 items");
  const std::array<int32_t, 3> descending = {0, 3, 1};
  const tp_array two[] = {
      one[0], one[1], {"block_type.atom_offset", descending.data(), sizeof descending}};
  CHECK(complaint(two, 3) == "offsets 'block_type.atom_offset' do not ascend from 0");
}

TEST_CASE("arrays that cannot be are refused") {
  const tp_array twice[] = {kArray, kArray};
  CHECK(complaint(twice, 2) == "array 'floats' is there twice");
  const tp_array nameless = {nullptr, kFloats.data(), 4};
  CHECK(complaint(&nameless, 1) == "an array has no name");
  const tp_array nowhere = {"floats", nullptr, 4};
  CHECK(complaint(&nowhere, 1) == "array 'floats' has no memory");
  const tp_array negative = {"floats", kFloats.data(), -4};
  CHECK(complaint(&negative, 1) == "array 'floats' has no memory");
  CHECK(complaint(nullptr, 1) == "no arrays are given");
  CHECK(complaint(&kArray, -1) == "no arrays are given");
}

TEST_CASE("a message keeps to its buffer") {
  CHECK(complaint(&kArray, -1, 10) == "no arrays");
  CHECK(complaint(&kArray, -1, 0) == "");
  CHECK(tp_tables_create(&kArray, -1, nullptr, 10) == nullptr);
}

TEST_CASE("the version is there, and nothing can be freed") {
  CHECK(std::string(tp_version()) != "");
  tp_tables_free(nullptr);
}
