// The lines of a PDB file: where a model is, its chains and bonds, and whether it is plain.
#pragma once

#include <string_view>
#include <vector>

#include "tmol_plugin.h"

namespace tmol_plugin {

struct PdbScan {
  const char* not_plain = nullptr;
  size_t begin = 0, end = 0;
  std::vector<int32_t> segments, serials;  // of the atoms
  std::vector<int32_t> bonds;              // pairs
  std::vector<tp_partner> partners;        // pairs
};

PdbScan scan_pdb(std::string_view text, int model);

}  // namespace tmol_plugin
