// From the atoms of a file to the residues that are scored: names, conformers, waters.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "prepare/tables.h"

namespace tmol_plugin {

// Ends a preparation: `status` is TP_NOT_PLAIN or TP_NOT_COVERED, `reason` in words.
struct Stop {
  int status;
  const char* reason;
};

using Position = std::array<double, 3>;

inline double distance_sq(const Position& a, const Position& b) {
  double x = a[0] - b[0], y = a[1] - b[1], z = a[2] - b[2];
  return x * x + y * y + z * z;
}

struct Residue {
  int residue_class;
  int segment;
  int first_atom;       // in the input
  AtomSet present = 0;  // atoms of the class that the file has
  int n_unknown_hydrogens = 0;
  std::array<Position, kMaxCanonical> positions;  // where present

  bool has(int atom) const { return atom >= 0 && (present & bit(atom)); }
};

// A bond that the file declares between two residues that are kept.
struct DeclaredBond {
  std::pair<int, int> first, second;  // (residue, atom), first < second
};

struct Residues {
  std::vector<Residue> residues;
  std::vector<DeclaredBond> bonds;
  std::array<int64_t, TP_N_COUNTS> counts{};
};

// Throws Stop where the policy would fail or where only the careful reader can tell.
Residues read_residues(const Tables& tables, const tp_atoms& atoms);

}  // namespace tmol_plugin
