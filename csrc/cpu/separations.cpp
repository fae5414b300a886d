// Counts bonds along paths through connections.
//
// As TMol (score/common/count_pair.hh, pose/_inter_block_bondsep.py): a path between atoms of
// two blocks leaves one through a connection and enters the other through one; between them
// lies the shortest path through the graph of connections.
#include "cpu/separations.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace tmol_plugin {
namespace {

template <class T>
std::vector<T> copied(const Arrays& arrays, const char* name) {
  const std::span<const T> values = arrays.get<T>(name);
  return {values.begin(), values.end()};
}

void refuse_unless(bool holds, const char* name) {
  if (!holds) {
    throw std::invalid_argument(std::string("array '") + name + "' does not fit the block types");
  }
}

bool ascends(const std::vector<int32_t>& offsets) {
  return !offsets.empty() && offsets[0] == 0 && std::is_sorted(offsets.begin(), offsets.end());
}

}  // namespace

BlockTypes::BlockTypes(const Arrays& arrays)
    : atom_offset_(copied<int32_t>(arrays, "block_type.atom_offset")),
      connection_offset_(copied<int32_t>(arrays, "block_type.connection_offset")),
      connection_atom_(copied<int32_t>(arrays, "connection.atom")),
      downstream_(copied<int32_t>(arrays, "connection.downstream")),
      path_offset_(copied<int32_t>(arrays, "block_type.path_offset")),
      paths_(copied<uint8_t>(arrays, "block_type.path_distance")) {
  refuse_unless(ascends(atom_offset_), "block_type.atom_offset");
  refuse_unless(ascends(connection_offset_) && connection_offset_.size() == atom_offset_.size() &&
                    size_t(connection_offset_.back()) == connection_atom_.size(),
                "block_type.connection_offset");
  refuse_unless(ascends(path_offset_) && path_offset_.size() == atom_offset_.size() &&
                    size_t(path_offset_.back()) == paths_.size(),
                "block_type.path_offset");
  int largest = 0;
  for (int t = 0; t < n_types(); ++t) {
    largest = std::max(largest, n_atoms(t));
    refuse_unless(path_offset_[t + 1] - path_offset_[t] == n_atoms(t) * n_atoms(t),
                  "block_type.path_distance");
  }
  refuse_unless(downstream_.size() == connection_atom_.size() * largest, "connection.downstream");
  for (int t = 0; t < n_types(); ++t) {
    for (int c = connection_offset_[t]; c < connection_offset_[t + 1]; ++c) {
      refuse_unless(connection_atom_[c] >= 0 && connection_atom_[c] < n_atoms(t),
                    "connection.atom");
      for (int d = 0; d < largest; ++d) {
        refuse_unless(downstream_[c * largest + d] < n_atoms(t), "connection.downstream");
      }
    }
  }
  view_ = {atom_offset_.data(), connection_offset_.data(), connection_atom_.data(),
           downstream_.data(), largest};
}

std::vector<NearBlock> near_blocks(const BlockTypes& types, const PoseView& pose, int block) {
  // The shortest paths from a connection to others, extended by one bond between blocks and by
  // the bonds within a block from where it was entered.
  using End = std::pair<int, int>;  // a block and one of its connections
  std::map<End, std::vector<ConnectionPath>> by_end;
  for (int start = 0; start < pose.n_connections(block); ++start) {
    std::map<End, int> n_bonds;
    std::vector<End> open = {{block, start}};
    n_bonds[open[0]] = 0;
    const auto reach = [&](End end, int bonds) {
      if (bonds >= kFarBonds) return;
      const auto [found, is_new] = n_bonds.try_emplace(end, bonds);
      if (!is_new && found->second <= bonds) return;
      found->second = bonds;
      open.push_back(end);
    };
    while (!open.empty()) {
      const End end = open.back();
      open.pop_back();
      const int so_far = n_bonds[end];
      const auto [at, connection] = end;
      if (pose.partner(at, connection) >= 0) {
        reach({pose.partner(at, connection), pose.partner_connection(at, connection)}, so_far + 1);
      }
      const int type = pose.block_types[at];
      for (int next = 0; next < pose.n_connections(at); ++next) {
        reach({at, next}, so_far + types.path(type, types.connection_atom(type, connection),
                                              types.connection_atom(type, next)));
      }
    }
    for (const auto& [end, bonds] : n_bonds) {
      if (end.first != block) by_end[end].push_back({start, end.second, bonds});
    }
  }
  std::vector<NearBlock> near;
  for (const auto& [end, paths] : by_end) {
    if (near.empty() || near.back().block != end.first) near.push_back({end.first, {}});
    near.back().paths.insert(near.back().paths.end(), paths.begin(), paths.end());
  }
  return near;
}

int separation(const BlockTypes& types, const PoseView& pose, int block, int a,
               const NearBlock& near, int b) {
  const int type = pose.block_types[block], other = pose.block_types[near.block];
  int fewest = kFarBonds;
  for (const ConnectionPath& path : near.paths) {
    const int bonds = types.path(type, types.connection_atom(type, path.connection), a) +
                      path.n_bonds +
                      types.path(other, types.connection_atom(other, path.other_connection), b);
    fewest = std::min(fewest, bonds);
  }
  return fewest;
}

}  // namespace tmol_plugin
