// Names as integers, and the map that finds what they mean.
#include <doctest.h>

#include <string>

#include "prepare/tables.h"

using tmol_plugin::make_name;
using tmol_plugin::NameMap;

TEST_CASE("names of up to eight letters are told apart") {
  CHECK(make_name("CA") != make_name("C"));
  CHECK(make_name("HB1") != make_name("1HB"));
  CHECK(make_name("ABCDEFGH") == make_name("ABCDEFGHI"));
  CHECK(make_name("") == 0);
}

TEST_CASE("a map finds what was put in, first come first kept, however full") {
  NameMap<int> map;
  CHECK(map.find(make_name("CA")) == nullptr);
  for (int i = 0; i < 1000; ++i) map.insert(make_name(std::to_string(i).c_str()), i);
  map.insert(make_name("7"), -1);
  for (int i = 0; i < 1000; ++i) {
    const int* found = map.find(make_name(std::to_string(i).c_str()));
    REQUIRE(found != nullptr);
    CHECK(*found == i);
  }
  CHECK(map.find(make_name("1000")) == nullptr);
  CHECK(map.find(0) == nullptr);
}
