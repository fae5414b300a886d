// Counts bonds along paths through connections.
//
// As TMol (score/common/count_pair.hh, pose/_inter_block_bondsep.py): a path between atoms of
// two blocks leaves one through a connection and enters the other through one; between them
// lies the shortest path through the graph of connections.
#include "cpu/separations.h"

#include <algorithm>
#include <stdexcept>

namespace tmol_plugin {
namespace {

template <class T>
std::vector<T> copied(const Arrays& arrays, const char* name) {
  const std::span<const T> values = arrays.get<T>(name);
  return {values.begin(), values.end()};
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

NearBlocks::NearBlocks(const BlockTypes& types, const PoseView& pose) {
  // The shortest ways from a connection to others: by one bond to the next block, or by the
  // bonds within a block from where it was entered. There are few: a list is searched fastest.
  struct Reached {
    int block, connection, n_bonds, start;
  };
  std::vector<Reached> reached;
  std::vector<size_t> ends;  // of the paths of each near block
  offsets_.push_back(0);
  for (int block = 0; block < pose.n_blocks; ++block) {
    reached.clear();
    for (int start = 0; start < pose.n_connections(block); ++start) {
      const size_t first = reached.size();
      const auto reach = [&](int at, int connection, int n_bonds) {
        if (n_bonds >= kFarBonds) return;
        for (size_t i = first; i < reached.size(); ++i) {
          if (reached[i].block != at || reached[i].connection != connection) continue;
          if (reached[i].n_bonds <= n_bonds) return;
          // Found again by a shorter way, which is then followed too.
          reached[i].block = -1;
        }
        reached.push_back({at, connection, n_bonds, start});
      };
      reach(block, start, 0);
      for (size_t i = first; i < reached.size(); ++i) {
        const Reached from = reached[i];
        if (from.block < 0) continue;
        const int partner = pose.partner(from.block, from.connection);
        if (partner >= 0) {
          reach(partner, pose.partner_connection(from.block, from.connection), from.n_bonds + 1);
        }
        const int type = pose.block_types[from.block];
        for (int next = 0; next < pose.n_connections(from.block); ++next) {
          reach(from.block, next,
                from.n_bonds + types.path(type, types.connection_atom(type, from.connection),
                                          types.connection_atom(type, next)));
        }
      }
    }
    std::erase_if(reached, [&](const Reached& r) { return r.block < 0 || r.block == block; });
    std::stable_sort(reached.begin(), reached.end(),
                     [](const Reached& a, const Reached& b) { return a.block < b.block; });
    for (size_t i = 0; i < reached.size(); ++i) {
      if (i == 0 || reached[i].block != reached[i - 1].block) {
        blocks_.push_back({reached[i].block, {}});
        ends.push_back(paths_.size());
      }
      paths_.push_back({reached[i].start, reached[i].connection, reached[i].n_bonds});
      ends.back() = paths_.size();
    }
    offsets_.push_back(int(blocks_.size()));
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].paths = {paths_.data() + (i ? ends[i - 1] : 0), paths_.data() + ends[i]};
  }
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
