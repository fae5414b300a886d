// What atom pairs are scored with: parameters of atom types, of their pairs, and of blocks' atoms.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/separations.h"
#include "energy/elec.h"
#include "energy/lk.h"

namespace tmol_plugin {

// What an atom is scored with, read as two rows of four floats.
struct AtomRow {
  int32_t type;
  float radius;
  float root_depth;  // square root of the well depth
  float charge;
  float x, y, z;
  float has_waters;  // 1 or 0
};

// Atoms within a block are reordered: heavy ones first, else in their block type's order.
class PairTables {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit.
  PairTables(const Arrays& arrays, const BlockTypes& types);

  LJGlobals lj;
  ElecGlobals elec;
  int n_atom_types;
  // By atom type; by first * n_atom_types + second.
  std::vector<LKType> lk_types;
  std::vector<uint8_t> is_polar;  // sigma may be another than the sum of the radii
  std::vector<float> sigma;
  std::vector<LKPair> lk_pairs;

  std::vector<int32_t> first_atom;  // by block type: its rows of what follows
  // By atom of all block types, in the new order.
  std::vector<int32_t> order;  // index within the block type
  std::vector<int32_t> place;  // the inverse: of atoms in their block type's order
  std::vector<AtomRow> atoms;
  std::vector<int32_t> n_heavy;  // by block type

  // Codes of pairs within a block type, [n, n] in the new order; no weight where the second atom
  // is not after the first.
  std::vector<int64_t> code_offset;  // by block type
  std::vector<uint8_t> codes;

  // Atoms within 4 bonds of a connection, the closest first, by connection of all block types.
  struct NearAtom {
    int32_t place;  // in the new order
    int32_t n_bonds;
  };
  std::vector<std::vector<NearAtom>> lj_near, elec_near;
};

}  // namespace tmol_plugin
