// Reads the compiled chemistry from named arrays and checks their sizes.
#include "prepare/tables.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace tmol_plugin {
namespace {

// The array's values; n_items < 0 takes as many as there are.
template <class T>
std::vector<T> take(const Arrays& arrays, const std::string& name, int64_t n_items = -1) {
  const std::span<const uint8_t> bytes = arrays.get<uint8_t>(name);
  if (bytes.size() % sizeof(T) != 0 ||
      (n_items >= 0 && bytes.size() != size_t(n_items) * sizeof(T))) {
    throw std::invalid_argument("array '" + name + "' has " + std::to_string(bytes.size()) +
                                " bytes, not those of " + std::to_string(n_items) + " items");
  }
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Offsets: ascending from 0, so that what they delimit can be read unchecked.
std::vector<int32_t> take_offsets(const Arrays& arrays, const std::string& name, int64_t n_items) {
  std::vector<int32_t> values = take<int32_t>(arrays, name, n_items + 1);
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    if (values[0] != 0 || values[i] > values[i + 1]) {
      throw std::invalid_argument("offsets '" + name + "' do not ascend from 0");
    }
  }
  return values;
}

// Row `row` of a [rows, width] table of flags as a set.
AtomSet row_set(const std::vector<uint8_t>& flags, size_t width, size_t row) {
  AtomSet set = 0;
  for (size_t i = 0; i < std::min<size_t>(width, kMaxCanonical); ++i)
    if (flags[row * width + i]) set |= bit(int(i));
  return set;
}

}  // namespace

void Tables::check_indices(const BlockType& type) const {
  const auto refuse_unless = [](bool holds) {
    if (!holds)
      throw std::invalid_argument("a block type of the parameters refers to what it does not have");
  };
  for (int connection : {type.down, type.up, type.disulfide})
    refuse_unless(connection < type.n_connections);
  for (const auto* frames : {&frame, &backup_frame})
    for (int i = type.atom_begin; i < type.atom_begin + type.n_atoms; ++i)
      for (auto [atom, connection, steps] : (*frames)[size_t(i)]) {
        refuse_unless(atom < type.n_atoms && connection < type.n_connections);
        refuse_unless(atom >= 0 || connection < 0 || (steps >= 0 && size_t(steps) < max_atoms));
      }
  const size_t begin = size_t(type.connection_begin) * max_atoms;
  for (size_t i = begin; i < begin + size_t(type.n_connections) * max_atoms; ++i)
    refuse_unless(downstream[i] < type.n_atoms);
}

Tables::Tables(const Arrays& arrays) {
  const auto type_class = take<int32_t>(arrays, "block_type.class");
  const int64_t n_types = int64_t(type_class.size());
  const auto class_names = take<Name>(arrays, "class.name");
  const int64_t n_classes = int64_t(class_names.size());
  const auto atom_offset = take_offsets(arrays, "block_type.atom_offset", n_types);
  const auto connection_offset = take_offsets(arrays, "block_type.connection_offset", n_types);
  const int64_t n_atoms = atom_offset.back(), n_connections = connection_offset.back();

  canonical = take<int32_t>(arrays, "atom.canonical", n_atoms);
  is_leaf = take<uint8_t>(arrays, "atom.is_leaf", n_atoms);
  frame = take<std::array<std::array<int32_t, 3>, 3>>(arrays, "atom.frame", n_atoms);
  frame_geometry = take<std::array<float, 3>>(arrays, "atom.frame_geometry", n_atoms);
  backup_frame = take<std::array<std::array<int32_t, 3>, 3>>(arrays, "atom.backup_frame", n_atoms);
  backup_frame_geometry = take<std::array<float, 3>>(arrays, "atom.backup_frame_geometry", n_atoms);
  downstream = take<int32_t>(arrays, "connection.downstream");
  max_atoms = n_connections ? downstream.size() / size_t(n_connections) : 0;
  if (downstream.size() != max_atoms * size_t(n_connections))
    throw std::invalid_argument("the array connection.downstream of the parameters is ragged");

  const auto is_protein = take<uint8_t>(arrays, "class.is_canonical_protein", n_classes);
  const auto any_hydrogen = take<uint8_t>(arrays, "class.any_hydrogen");
  const size_t width = n_classes ? any_hydrogen.size() / size_t(n_classes) : 0;
  const int64_t n_cells = n_classes * int64_t(width);
  const auto titratable = take<uint8_t>(arrays, "class.titratable", n_cells);
  const auto shared = take<uint8_t>(arrays, "class.shared_hydrogen", n_cells);
  const auto fixed = take<int8_t>(arrays, "class.fixed_hydrogens", n_cells);
  const auto varying = take<uint8_t>(arrays, "class.varying_atom", n_cells);
  const auto parent = take<int32_t>(arrays, "class.hydrogen_parent", n_cells);
  const auto required = take<uint8_t>(arrays, "policy.required", n_cells);
  const auto amine = take<int32_t>(arrays, "class.amine_atom", n_classes);
  const auto has_deprotonated = take<uint8_t>(arrays, "class.has_deprotonated", n_classes);
  const auto expects = take<uint8_t>(arrays, "class.expects_titratable");
  n_variants_ = n_classes ? expects.size() / size_t(n_classes) : 0;
  deprotonated_variant_ = take<int32_t>(arrays, "policy.deprotonated_variant", 1)[0];
  candidate_offset_ =
      take_offsets(arrays, "candidate.offset", n_classes * 4 * int64_t(n_variants_));
  candidates_ = take<int32_t>(arrays, "candidate.block_type", candidate_offset_.back());

  const auto down = take<int32_t>(arrays, "block_type.down_connection", n_types);
  const auto up = take<int32_t>(arrays, "block_type.up_connection", n_types);
  const auto disulfide = take<int32_t>(arrays, "block_type.disulfide_connection", n_types);
  const auto non_default = take<uint8_t>(arrays, "block_type.is_non_default_terminus", n_types);
  const auto type_variant = take<int32_t>(arrays, "block_type.variant", n_types);
  const auto type_terminus = take<int32_t>(arrays, "block_type.terminus", n_types);
  const auto absent =
      take<uint8_t>(arrays, "block_type.canonical_absent", n_types * int64_t(width));
  const auto nonterminal =
      take<uint8_t>(arrays, "block_type.canonical_nonterm_present", n_types * int64_t(width));
  for (size_t t = 0; t < size_t(n_types); ++t) {
    if (type_class[t] < 0 || type_class[t] >= n_classes)
      throw std::invalid_argument("a block type of the parameters is of no class");
    block_types_.push_back({type_class[t], atom_offset[t], atom_offset[t + 1] - atom_offset[t],
                            connection_offset[t], connection_offset[t + 1] - connection_offset[t],
                            down[t], up[t], disulfide[t], row_set(absent, width, t),
                            row_set(nonterminal, width, t), non_default[t] != 0});
    check_indices(block_types_.back());
  }
  for (int32_t candidate : candidates_)
    if (candidate < 0 || candidate >= n_types)
      throw std::invalid_argument("a candidate of the parameters is no block type");

  const auto alias_offset = take_offsets(arrays, "class.alias_offset", n_classes);
  const auto alias_name = take<Name>(arrays, "alias.name", alias_offset.back());
  const auto alias_canonical = take<int32_t>(arrays, "alias.canonical", alias_offset.back());
  auto atom_of = [&](size_t c, const char* text) {
    for (int32_t i = alias_offset[c]; i < alias_offset[c + 1]; ++i)
      if (alias_name[size_t(i)] == make_name(text)) return int(alias_canonical[size_t(i)]);
    return -1;
  };

  classes_.resize(size_t(n_classes));
  for (size_t c = 0; c < size_t(n_classes); ++c) {
    if (!is_protein[c]) continue;
    ResidueClass& one = classes_[c];
    for (int32_t i = alias_offset[c]; i < alias_offset[c + 1]; ++i)
      if (alias_canonical[size_t(i)] < 0 || alias_canonical[size_t(i)] >= kMaxCanonical)
        throw std::invalid_argument("an amino acid of the parameters has more than 64 atoms");
    one.n = atom_of(c, "N");
    one.c = atom_of(c, "C");
    one.oxt = atom_of(c, "OXT");
    if (one.n < 0 || one.c < 0 || one.oxt < 0)
      throw std::invalid_argument("an amino acid of the parameters lacks N, C or OXT");
    one.required = row_set(required, width, c);
    one.any_hydrogen = row_set(any_hydrogen, width, c);
    one.titratable = row_set(titratable, width, c);
    one.shared_hydrogen = row_set(shared, width, c);
    one.has_deprotonated = has_deprotonated[c] != 0;
    one.has_neutral_terminus = amine[c] >= 0;
    for (size_t v = 0; v < n_variants_; ++v)
      one.expects_titratable.push_back(expects[c * n_variants_ + v] != 0);
    for (size_t heavy = 0; heavy < std::min<size_t>(width, kMaxCanonical); ++heavy) {
      AtomSet hydrogens = 0;
      for (size_t h = 0; h < std::min<size_t>(width, kMaxCanonical); ++h)
        if (parent[c * width + h] == int32_t(heavy)) hydrogens |= bit(int(h));
      if (int(heavy) == one.n) one.amine_hydrogens = hydrogens;
      if (fixed[c * width + heavy] >= 0 && (hydrogens || fixed[c * width + heavy]))
        one.fixed_hydrogens.push_back({hydrogens, fixed[c * width + heavy]});
      if (varying[c * width + heavy]) one.varying_hydrogens.push_back(hydrogens);
    }
    if (class_names[c] == make_name("HIS")) {
      histidine_ = int(c);
      hd1_ = atom_of(c, "HD1");
      he2_ = atom_of(c, "HE2");
    }
    if (class_names[c] == make_name("CYS")) {
      cysteine_ = int(c);
      sg_ = atom_of(c, "SG");
    }
  }
  if (hd1_ < 0 || he2_ < 0 || sg_ < 0)
    throw std::invalid_argument("the parameters lack HIS with HD1 and HE2, or CYS with SG");
  for (size_t t = 0; t < size_t(n_types); ++t) {
    ResidueClass& one = classes_[size_t(type_class[t])];
    if (one.n < 0) continue;
    for (int i = 0; i < block_types_[t].n_atoms; ++i) {
      int32_t atom = canonical[size_t(block_types_[t].atom_begin + i)];
      if (atom < 0 || atom >= kMaxCanonical)
        throw std::invalid_argument("an amino acid of the parameters has more than 64 atoms");
    }
    AtomSet present = ~block_types_[t].absent;
    one.max_amine_hydrogens =
        std::max(one.max_amine_hydrogens, std::popcount(present & one.amine_hydrogens));
    if (type_terminus[t] == kMid) one.amide_hydrogens |= present & one.amine_hydrogens;
    // A disulfide is chosen by its bond, not by hydrogens.
    if (type_terminus[t] != kMid || block_types_[t].disulfide >= 0) continue;
    std::vector<int> counts;
    for (AtomSet hydrogens : one.varying_hydrogens)
      counts.push_back(std::popcount(present & hydrogens));
    one.forms.emplace_back(type_variant[t], counts);
  }

  const auto written = take<Name>(arrays, "written.residue");
  const auto written_class = take<int32_t>(arrays, "written.class", int64_t(written.size()));
  const auto written_flags = take<uint8_t>(arrays, "written.flags", int64_t(written.size()));
  const auto written_offset = take_offsets(arrays, "written.atom_offset", int64_t(written.size()));
  const auto atom_name = take<Name>(arrays, "written.atom_name", written_offset.back());
  const auto atom_canonical =
      take<int32_t>(arrays, "written.atom_canonical", written_offset.back());
  const auto is_deuterium = take<uint8_t>(arrays, "written.is_deuterium", written_offset.back());
  for (size_t w = 0; w < written.size(); ++w) {
    int32_t c = written_class[w];
    if (c < 0 || c >= n_classes || !is_protein[size_t(c)])
      throw std::invalid_argument(
          "a residue name of the policy is no amino acid of the parameters");
    WrittenResidue residue{c, (written_flags[w] & 1) != 0, (written_flags[w] & 2) != 0, {}};
    for (size_t i = size_t(written_offset[w]); i < size_t(written_offset[w + 1]); ++i) {
      if (atom_name[i] == 0 || atom_canonical[i] < 0 || atom_canonical[i] >= kMaxCanonical)
        throw std::invalid_argument("an atom name of the policy is no atom of the parameters");
      residue.atoms.insert(atom_name[i], WrittenAtom{atom_canonical[i], is_deuterium[i] != 0});
    }
    written_.insert(written[w], std::move(residue));
  }
  waters_ = take<Name>(arrays, "policy.water");
}

}  // namespace tmol_plugin
