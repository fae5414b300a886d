// Coordinates of a pose: those of the file, and missing leaf atoms from internal coordinates.
#pragma once

#include <vector>

#include "prepare/typing.h"

namespace tmol_plugin {

struct Built {
  std::vector<int32_t> block_atom_offsets;  // [n_blocks + 1]
  std::vector<float> coords;                // [n_atoms, 3] angstrom
  int64_t n_atoms_built = 0;
};

Built build_coordinates(const Tables& tables, const Residues& residues, const Typing& typing);

}  // namespace tmol_plugin
