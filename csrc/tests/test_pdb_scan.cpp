// Lines of PDB files: models, chains, bonds, and what makes them not plain.
#include <doctest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "prepare/pdb_scan.h"

using tmol_plugin::PdbScan;
using tmol_plugin::scan_pdb;

namespace {

// Columns as in the wwPDB's format.
std::string atom(int serial, char chain = 'A', const char* number = "   1 ",
                 const char* record = "ATOM  ") {
  std::string digits = std::to_string(serial);
  return record + std::string(5 - digits.size(), ' ') + digits + "  CA  ALA " + chain + number +
         "     11.104   6.134  -6.504  1.00  0.00           C  \n";
}

std::string with(std::string line, size_t column, const std::string& text) {
  return line.replace(column, text.size(), text);
}

std::string why(const std::string& text, int model = 1) {
  const PdbScan scan = scan_pdb(text, model);
  return scan.not_plain ? scan.not_plain : "";
}

}  // namespace

TEST_CASE("chains are divided by TER and by their letter") {
  const std::string text = "HEADER\n" + atom(1) + atom(2) + "TER\n" + atom(4) + atom(5, 'B') +
                           atom(6, 'B', "   2 ", "HETATM") + "END\n";
  const PdbScan scan = scan_pdb(text, 1);
  CHECK(scan.not_plain == nullptr);
  CHECK(scan.segments == std::vector<int32_t>{0, 0, 1, 2, 2});
  CHECK(text.substr(scan.begin, 6) == "ATOM  ");
  CHECK(text.substr(scan.end) == "END\n");
}

TEST_CASE("a TER divides the model that it is in, once") {
  const std::string other = "MODEL        1\n" + atom(1) + "TER\n" + atom(3) + "ENDMDL\n";
  const std::string text = other + "TER\nMODEL        2\nTER\n" + atom(1) + "TER       2\n" +
                           atom(3, 'B') + atom(4, 'A') + "ENDMDL\n";
  CHECK(scan_pdb(text, 1).segments == std::vector<int32_t>{0, 1});
  const PdbScan scan = scan_pdb(text, 2);
  // Numbered from whatever number: a TER before the first atom counts.
  REQUIRE(scan.segments.size() == 3);
  CHECK(scan.segments[1] == scan.segments[0] + 1);
  CHECK(scan.segments[2] == scan.segments[1] + 1);
}

TEST_CASE("a model is found by its number, others are not looked at") {
  const std::string text = "MODEL        3\n" + atom(1) + "ENDMDL\nMODEL        7\n" + atom(1) +
                           atom(2) + "ENDMDL\nMODEL        9\n" + with(atom(1), 30, "********") +
                           "ENDMDL\n";
  CHECK(scan_pdb(text, 7).segments.size() == 2);
  CHECK(scan_pdb(text, 3).segments.size() == 1);
  CHECK(why(text, 9) == "a coordinate that is no plain number");
  CHECK(why(text, 1) == "no atoms in the model");
  CHECK(why("MODEL        1\n" + atom(1) + "ENDMDL\nMODEL        1\n" + atom(1)) ==
        "models without numbers of their own");
  CHECK(why(atom(1) + "END\n" + atom(2)) == "models without numbers of their own");
  CHECK(why("MODEL  x\n" + atom(1)) == "models without numbers of their own");
  CHECK(why("MODEL        0\n" + atom(1), 0) == "models without numbers of their own");
  CHECK(why("") == "no atoms in the model");
}

TEST_CASE("what another reader would take otherwise is not plain") {
  const std::string good = atom(1);
  CHECK(why(good) == "");
  CHECK(why(good.substr(0, 54)) == "");
  CHECK(scan_pdb(good.substr(0, 54), 1).end == 54);
  CHECK(why(good.substr(0, 53)) == "a line that ends within the coordinates");
  CHECK(why(good.substr(0, 57)) == "an occupancy that is no plain number");
  for (const char* number :
       {"     nan", "  1.0e+1", "  1.0 2 ", "        ", "1..00000", "   1_0.0"})
    CHECK(why(with(good, 38, number)) == "a coordinate that is no plain number");
  CHECK(why(with(good, 20, "X")) == "a residue or chain name of more letters than usual");
  CHECK(why(with(with(good, 21, " "), 72, "PROA")) == "a segment for a chain");
  CHECK(why(with(good, 21, " ")) == "");
  CHECK(why(with(good, 22, "  A1")) == "a residue number that is none");
  CHECK(why(with(good, 22, "-999")) == "");
  CHECK(why(with(good, 16, "\t")) == "tabs");
  CHECK(why(with(good, 26, "\t")) == "tabs");
  CHECK(why(with(good, 54, "   abc")) == "an occupancy that is no plain number");
  CHECK(why(with(good, 6, "*****")) == "a serial that is no number");
  CHECK(why(atom(2) + atom(2)) == "a serial that comes again");
  CHECK(why(atom(2) + atom(1)) == "");
  CHECK(scan_pdb(atom(2) + atom(1), 1).serials == std::vector<int32_t>{2, 1});
}

TEST_CASE("bonds are those of atoms that are there") {
  const std::string text = atom(1) + atom(3) + "CONECT    1    3    9\nCONECT    3    1\n";
  CHECK(scan_pdb(text, 1).bonds == std::vector<int32_t>{0, 1, 1, 0});
  CHECK(scan_pdb(atom(3) + atom(1) + "CONECT    1    3\n", 1).bonds == std::vector<int32_t>{1, 0});
  const std::string fan = "CONECT    1    2    3    4    5\n";
  CHECK(scan_pdb(atom(1) + atom(2) + atom(3) + atom(4) + atom(5) + fan, 1).bonds ==
        std::vector<int32_t>{0, 1, 0, 2, 0, 3, 0, 4});
  CHECK(
      scan_pdb(atom(1) + atom(2) + "CONECT\nCONECT    x    1\nCONECT    1    y    2\n", 1).bonds ==
      std::vector<int32_t>{0, 1});
  const std::string bridge =
      "SSBOND   1 CYS A    3    CYS B   12A                         1555   1555  2.03\n";
  const PdbScan scan = scan_pdb(bridge + atom(1), 1);
  REQUIRE(scan.partners.size() == 2);
  CHECK(scan.partners[0].chain == std::string("A"));
  CHECK(scan.partners[0].number == 3);
  CHECK(scan.partners[0].insertion_code == ' ');
  CHECK(scan.partners[1].chain == std::string("B"));
  CHECK(scan.partners[1].number == 12);
  CHECK(scan.partners[1].insertion_code == 'A');
  CHECK(scan.partners[1].atom == std::string("SG"));
  const std::string copy = with(bridge, 66, "  2555");
  CHECK(scan_pdb(copy + atom(1), 1).partners.empty());
  const std::string link =
      "LINK         NE2 HIS A  40                ZN    ZN A 101     1555   1555  2.10  \n";
  const PdbScan linked = scan_pdb(link + atom(1), 1);
  REQUIRE(linked.partners.size() == 2);
  CHECK(linked.partners[0].atom == std::string("NE2"));
  CHECK(linked.partners[0].number == 40);
  CHECK(linked.partners[1].atom == std::string("ZN"));
  CHECK(linked.partners[1].number == 101);
  CHECK(scan_pdb(with(link, 66, "  2555") + atom(1), 1).partners.empty());
  // Cut before the second end, they declare nothing; blank ends lie in one cell.
  CHECK(scan_pdb(bridge.substr(0, 31) + "\n" + atom(1), 1).partners.empty());
  CHECK(scan_pdb(bridge.substr(0, 36) + "\n" + atom(1), 1).partners.size() == 2);
  CHECK(scan_pdb(link.substr(0, 56) + "\n" + atom(1), 1).partners.empty());
  CHECK(scan_pdb(link.substr(0, 57) + "\n" + atom(1), 1).partners.size() == 2);
  CHECK(scan_pdb(with(bridge, 17, "    ") + atom(1), 1).partners[0].number == INT32_MIN);
}
