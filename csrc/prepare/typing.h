// From residues to blocks: chains, disulfides, protonation, block types, connections.
#pragma once

#include <vector>

#include "prepare/residues.h"

namespace tmol_plugin {

struct Block {
  int type;
  int chain;
  int connection_begin;  // in Typing::connections
};

struct Connection {
  int block = -1, connection = -1;  // the partner's
};

struct Typing {
  std::vector<Block> blocks;  // one for each residue
  std::vector<Connection> connections;
  std::vector<std::pair<int, int>> disulfides;
};

// Counts chain breaks, ignored bonds and unused hydrogens in `residues`. Throws Stop where TMol
// would need what is not prepared here, or the policy fails.
Typing assign_block_types(const Tables& tables, Residues& residues);

}  // namespace tmol_plugin
