// How many bonds lie between atoms: within a block, and of blocks that are bonded closely.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "energy/pose_view.h"
#include "prepare/arrays.h"

namespace tmol_plugin {

// Bonds beyond which atoms see each other in full; separations are counted up to it.
inline constexpr int kFarBonds = 5;

// The block types, as every term reads them, and their atoms' bonds.
class BlockTypes {
 public:
  // Throws std::invalid_argument naming an array that is missing or refers beyond the others.
  explicit BlockTypes(const Arrays& arrays);

  const BlockTypesView& view() const { return view_; }
  int n_types() const { return int(atom_offset_.size()) - 1; }
  int n_atoms(int type) const { return atom_offset_[type + 1] - atom_offset_[type]; }
  int atom_begin(int type) const { return atom_offset_[type]; }
  int connection_begin(int type) const { return connection_offset_[type]; }
  int n_connections(int type) const {
    return connection_offset_[type + 1] - connection_offset_[type];
  }
  int connection_atom(int type, int connection) const {
    return connection_atom_[connection_offset_[type] + connection];
  }

  // Bonds between two atoms of a block type by the shortest way within it, at most 6.
  int path(int type, int a, int b) const {
    return paths_[path_offset_[type] + a * n_atoms(type) + b];
  }

 private:
  std::vector<int32_t> atom_offset_, connection_offset_, connection_atom_, downstream_,
      path_offset_;
  std::vector<uint8_t> paths_;
  BlockTypesView view_;
};

// Two connections, one of each of two blocks, and the bonds between their atoms.
struct ConnectionPath {
  int connection, other_connection, n_bonds;
};

// A block with a connection atom within 4 bonds of one of another block's.
struct NearBlock {
  int block;
  std::span<const ConnectionPath> paths;
};

// The near blocks of each block of a pose.
class NearBlocks {
 public:
  NearBlocks(const BlockTypes& types, const PoseView& pose);
  NearBlocks(const NearBlocks&) = delete;  // the blocks refer to the paths
  NearBlocks& operator=(const NearBlocks&) = delete;

  // In ascending order, the block itself not among them.
  std::span<const NearBlock> operator[](int block) const {
    return {blocks_.data() + offsets_[block], blocks_.data() + offsets_[block + 1]};
  }

 private:
  std::vector<int> offsets_;
  std::vector<NearBlock> blocks_;
  std::vector<ConnectionPath> paths_;
};

// Bonds between atom a of `block` and atom b of `near`, at most kFarBonds.
int separation(const BlockTypes& types, const PoseView& pose, int block, int a,
               const NearBlock& near, int b);

}  // namespace tmol_plugin
