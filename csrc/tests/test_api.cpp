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

TEST_CASE("arrays are taken, also none") {
  CHECK(complaint(&kArray, 1) == "");
  CHECK(complaint(nullptr, 0) == "");
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
