// Groups atoms into residues, chooses conformers and checks what the policy requires.
#include "prepare/residues.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace tmol_plugin {
namespace {

constexpr double kMaxCoordinate = 9999.999;  // angstrom
constexpr double kSamePoint = 0.01;          // angstrom
constexpr int64_t kMaxResidueAtoms = 2000;

[[noreturn]] void not_plain(const char* reason) { throw Stop{TP_NOT_PLAIN, reason}; }

Name name_of(const char* names, int64_t atom) { return name_at(names + 8 * atom); }

// A deuterium's name as the hydrogen's: the letter behind at most one digit, as the policy has it.
Name as_hydrogen(Name deuterium, size_t letter) {
  if (letter > 1) return deuterium;
  char bytes[8];
  std::memcpy(bytes, &deuterium, sizeof bytes);
  bytes[letter] = 'H';
  return name_at(bytes);
}

// A residue's place in the file.
struct Site {
  int segment;
  Name chain;
  int32_t number;
  char insertion_code;

  bool operator==(const Site&) const = default;
};

struct SiteHash {
  size_t operator()(const Site& site) const {
    uint64_t hash = site.chain * 0x9e3779b97f4a7c15u;
    hash ^= (uint64_t(uint32_t(site.number)) << 32 | uint64_t(uint32_t(site.segment)) << 8 |
             uint8_t(site.insertion_code)) +
            (hash << 6) + (hash >> 2);
    return size_t(hash * 0x9e3779b97f4a7c15u);
  }
};

class Reader {
 public:
  Reader(const Tables& tables, const tp_atoms& atoms) : tables_(tables), atoms_(atoms) {}

  Residues read() {
    check_order();
    int64_t begin = 0;
    while (begin < atoms_.n_atoms) {
      int64_t end = residue_end(begin);
      add(begin, end);
      begin = end;
    }
    if (out_.residues.empty()) not_plain("no residue of an amino acid");
    add_bonds();
    return std::move(out_);
  }

 private:
  Site site(int64_t atom) const {
    return {segment_of_[size_t(atom)], name_of(atoms_.chain_ids, atom),
            atoms_.residue_numbers[atom], atoms_.insertion_codes[atom]};
  }

  void check_order() {
    segment_of_.resize(size_t(atoms_.n_atoms));
    int segment = 0;
    for (int64_t i = 0; i < atoms_.n_atoms; ++i) {
      if (atoms_.expected_serials
              ? atoms_.serials[i] != atoms_.expected_serials[i]
              : i > 0 && atoms_.serials && atoms_.serials[i] <= atoms_.serials[i - 1])
        not_plain("atoms that the parser put in another order");
      if (i > 0 && !atoms_.segments &&
          (name_of(atoms_.chain_ids, i) != name_of(atoms_.chain_ids, i - 1) ||
           name_of(atoms_.subchains, i) != name_of(atoms_.subchains, i - 1)))
        ++segment;
      segment_of_[size_t(i)] = atoms_.segments ? atoms_.segments[i] : segment;
      for (int axis = 0; axis < 3; ++axis)
        if (!(std::abs(atoms_.positions[3 * i + axis]) <= kMaxCoordinate))
          not_plain("a coordinate that is no number or too large");
      if (!std::isfinite(atoms_.occupancies[i])) not_plain("an occupancy that is no number");
    }
    residue_of_.assign(size_t(atoms_.n_atoms), -1);
  }

  int64_t residue_end(int64_t begin) {
    Site here = site(begin);
    if (!seen_.insert(here).second) not_plain("a residue number that comes again");
    Name name = name_of(atoms_.residue_names, begin);
    int64_t end = begin + 1;
    while (end < atoms_.n_atoms && site(end) == here) {
      if (name_of(atoms_.residue_names, end) != name)
        not_plain("two residue names at one position");
      ++end;
    }
    // Pairs of atoms are looked at: a residue has at most some dozens, and their conformers.
    if (end - begin > kMaxResidueAtoms) not_plain("a residue of very many atoms");
    return end;
  }

  void add(int64_t begin, int64_t end) {
    Name name = name_of(atoms_.residue_names, begin);
    if (tables_.is_water(name)) {
      ++out_.counts[TP_WATERS_DROPPED];
      return;
    }
    const WrittenResidue* written = tables_.written(name);
    if (!written) not_plain("a residue that is no amino acid");
    out_.counts[TP_MSE_AS_MET] += written->is_mse;
    out_.counts[TP_RESIDUES_RENAMED] += written->is_renamed && !written->is_mse;

    int index = int(out_.residues.size());
    Residue& residue = out_.residues.emplace_back();
    residue.residue_class = written->residue_class;
    residue.segment = segment_of_[size_t(begin)];
    residue.first_atom = int(begin);
    const char altloc = conformer(begin, end);
    chosen_.clear();
    unknown_.clear();
    for (int64_t i = begin; i < end; ++i) {
      residue_of_[size_t(i)] = index;
      if (atoms_.altlocs[i] == 0 || atoms_.altlocs[i] == altloc) add_atom(*written, residue, i);
    }
    const ResidueClass& kind = tables_.residue_class(residue.residue_class);
    if ((residue.present & kind.required) != kind.required) not_plain("missing heavy atoms");
    for (size_t i = 0; i < chosen_.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (distance_sq(chosen_[i], chosen_[j]) < kSamePoint * kSamePoint)
          not_plain("two atoms at one point");
  }

  void add_atom(const WrittenResidue& written, Residue& residue, int64_t i) {
    Name name = name_of(atoms_.atom_names, i);
    const double* xyz = atoms_.positions + 3 * i;
    Position position{xyz[0], xyz[1], xyz[2]};
    out_.counts[TP_ZERO_OCCUPANCY_ATOMS] += atoms_.occupancies[i] == 0;
    chosen_.push_back(position);
    if (const WrittenAtom* found = written.atoms.find(name)) {
      const WrittenAtom& atom = *found;
      if (residue.has(atom.canonical)) not_plain("an atom name that comes again");
      residue.present |= bit(atom.canonical);
      residue.positions[size_t(atom.canonical)] = position;
      out_.counts[TP_DEUTERIUM_AS_HYDROGEN] += atom.is_deuterium;
      return;
    }
    // A hydrogen by a name that no block type has is left out, and counted.
    const char* letters = atoms_.atom_names + 8 * i;
    while (*letters >= '0' && *letters <= '9') ++letters;
    if (*letters != 'H' && *letters != 'D') not_plain("an atom that the residue does not have");
    if (*letters == 'D') {
      ++out_.counts[TP_DEUTERIUM_AS_HYDROGEN];
      name = as_hydrogen(name, size_t(letters - (atoms_.atom_names + 8 * i)));
    }
    if (std::find(unknown_.begin(), unknown_.end(), name) != unknown_.end())
      not_plain("an atom name that comes again");
    unknown_.push_back(name);
    ++residue.n_unknown_hydrogens;
  }

  // The letter with the highest mean occupancy, the first of equals; NUL if there is none.
  char conformer(int64_t begin, int64_t end) {
    std::array<double, 256> sum{};
    std::array<int, 256> count{};
    bool any = false;
    for (int64_t i = begin; i < end; ++i) {
      uint8_t letter = uint8_t(atoms_.altlocs[i]);
      if (letter == 0) continue;
      any = true;
      sum[letter] += double(atoms_.occupancies[i]);
      ++count[letter];
    }
    if (!any) return 0;
    ++out_.counts[TP_RESIDUES_WITH_ALTLOCS];
    int best = 0;
    double best_mean = 0;
    for (int letter = 1; letter < 256; ++letter) {
      if (!count[size_t(letter)]) continue;
      // Rounded: the mean of ten times 0.35 must not beat the mean of nine times 0.35.
      double mean = std::nearbyint(sum[size_t(letter)] / count[size_t(letter)] * 1e4);
      if (best == 0 || mean > best_mean) {
        best = letter;
        best_mean = mean;
      }
    }
    return char(best);
  }

  void add_bonds() {
    for (int64_t i = 0; i < atoms_.n_bonds; ++i) {
      const int32_t* pair = atoms_.bonds + 2 * i;
      for (int end = 0; end < 2; ++end)
        if (pair[end] < 0 || pair[end] >= atoms_.n_atoms) not_plain("a bond of no atom");
      if (residue_of_[size_t(pair[0])] != residue_of_[size_t(pair[1])])
        add_bond(end_of(pair[0]), end_of(pair[1]));
    }
    if (!atoms_.n_partner_pairs) return;
    std::unordered_map<Site, std::vector<int64_t>, SiteHash> atoms_at;
    for (int64_t i = 0; i < atoms_.n_atoms; ++i) {
      if (residue_of_[size_t(i)] < 0) continue;
      Site where = site(i);
      where.segment = 0;
      atoms_at[where].push_back(i);
    }
    for (int64_t i = 0; i < atoms_.n_partner_pairs; ++i) {
      int64_t ends[2] = {-1, -1};
      for (int end = 0; end < 2; ++end) {
        const tp_partner& partner = atoms_.partners[2 * i + end];
        auto found =
            atoms_at.find({0, name_at(partner.chain), partner.number, partner.insertion_code});
        if (found == atoms_at.end()) continue;
        // A number may be there twice: the bond is that of the first residue with the atom.
        for (int64_t atom : found->second)
          if (ends[end] < 0 && name_of(atoms_.atom_names, atom) == name_at(partner.atom))
            ends[end] = atom;
      }
      if (ends[0] >= 0 && ends[1] >= 0 &&
          residue_of_[size_t(ends[0])] != residue_of_[size_t(ends[1])])
        add_bond(end_of(ends[0]), end_of(ends[1]));
    }
  }

  // (residue, atom) of an input atom; atom -1 if that is not kept.
  std::pair<int, int> end_of(int64_t i) const {
    int index = residue_of_[size_t(i)];
    if (index < 0) return {-1, -1};
    const WrittenResidue* written = tables_.written(name_of(atoms_.residue_names, i));
    const WrittenAtom* found = written->atoms.find(name_of(atoms_.atom_names, i));
    if (!found) return {index, -1};
    int atom = found->canonical;
    return {index, out_.residues[size_t(index)].has(atom) ? atom : -1};
  }

  void add_bond(std::pair<int, int> a, std::pair<int, int> b) {
    if (a.second >= 0 && b.second >= 0) out_.bonds.push_back({std::min(a, b), std::max(a, b)});
  }

  const Tables& tables_;
  const tp_atoms& atoms_;
  Residues out_;
  std::vector<int> segment_of_, residue_of_;
  std::unordered_set<Site, SiteHash> seen_;
  std::vector<Position> chosen_;
  std::vector<Name> unknown_;
};

}  // namespace

Residues read_residues(const Tables& tables, const tp_atoms& atoms) {
  return Reader(tables, atoms).read();
}

}  // namespace tmol_plugin
