// Decides as TMol does (tmol.io.details): termini and gaps, then variants by the hydrogens that
// are there, then the candidate whose atoms fit best.
#include "prepare/typing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace tmol_plugin {
namespace {

constexpr double kBreak = 2.4;        // angstrom: further apart, C and N are not bonded
constexpr double kDisulfide = 2.5;    // angstrom between two SG
constexpr double kDeclared = 3.0;     // a bond declared over more than this is none
constexpr double kCyclic = 2.0;       // angstrom: nearer, a chain's ends are bonded
constexpr double kCoincident = 0.01;  // angstrom
constexpr double kOxtMin = 1.0, kOxtMax = 2.0;

[[noreturn]] void not_plain(const char* reason) { throw Stop{TP_NOT_PLAIN, reason}; }
[[noreturn]] void not_covered(const char* reason) { throw Stop{TP_NOT_COVERED, reason}; }

class Typist {
 public:
  Typist(const Tables& tables, Residues& input)
      : tables_(tables), input_(input), residues_(input.residues), n_(residues_.size()) {}

  Typing run() {
    variants_.assign(n_, 0);
    partner_.assign(n_, -1);
    find_chains();
    take_declared_bonds();
    find_disulfides();
    check_chain_ends();
    for (size_t i = 0; i < n_; ++i) {
      choose_variant(i);
      out_.blocks.push_back({block_type(i), chain_[i], 0});
    }
    connect();
    return std::move(out_);
  }

 private:
  const ResidueClass& kind(size_t i) const {
    return tables_.residue_class(residues_[i].residue_class);
  }
  const Position& at(size_t i, int atom) const { return residues_[i].positions[size_t(atom)]; }
  double link_sq(size_t i, size_t j) const {
    return distance_sq(at(i, kind(i).c), at(j, kind(j).n));
  }
  bool same_chain(size_t i, size_t j) const { return chain_[i] == chain_[j]; }
  bool is_first(size_t i) const { return i == 0 || !same_chain(i - 1, i); }
  bool is_last(size_t i) const { return i + 1 == n_ || !same_chain(i, i + 1); }
  bool is_bonded_to_next(size_t i) const { return !is_last(i) && !broken_after_[i]; }
  bool is_bonded_to_previous(size_t i) const { return !is_first(i) && !broken_after_[i - 1]; }

  void find_chains() {
    chain_.assign(n_, 0);
    broken_after_.assign(n_, false);
    for (size_t i = 1; i < n_; ++i) {
      bool joined = residues_[i].segment == residues_[i - 1].segment;
      chain_[i] = chain_[i - 1] + !joined;
      double gap_sq = link_sq(i - 1, i);
      if (!joined) {
        input_.counts[TP_CHAIN_ENDS_WITHIN_BONDING_DISTANCE] += gap_sq <= kBreak * kBreak;
      } else if (gap_sq > kBreak * kBreak) {
        ++input_.counts[TP_CHAIN_BREAKS];
        broken_after_[i - 1] = true;
        if (link_sq(i, i - 1) <= kBreak * kBreak) not_covered("a chain that runs from C to N");
      } else if (gap_sq < kCoincident * kCoincident) {
        not_covered("bonded atoms at one point");
      }
    }
    for (size_t first = 0, i = 0; i < n_; ++i) {
      if (is_first(i)) first = i;
      if (is_last(i) && i != first && link_sq(i, first) < kCyclic * kCyclic)
        not_covered("a cyclic chain");
    }
  }

  void take_declared_bonds() {
    const int cys = tables_.cysteine(), sg = tables_.cysteine_sg();
    for (const DeclaredBond& bond : input_.bonds) {
      auto [i, a] = bond.first;
      auto [j, b] = bond.second;
      const Residue &first = residues_[size_t(i)], &second = residues_[size_t(j)];
      const double sq = distance_sq(first.positions[size_t(a)], second.positions[size_t(b)]);
      if (sq < kCoincident * kCoincident) not_covered("bonded atoms at one point");
      if (sq > kDeclared * kDeclared) {
        // Designs keep headers of the numbering they had.
        ++input_.counts[TP_DECLARED_BONDS_IGNORED];
      } else if (first.residue_class == cys && second.residue_class == cys && a == sg && b == sg) {
        join_sulfurs(size_t(i), size_t(j));
      } else if (!(j == i + 1 && same_chain(size_t(i), size_t(j)) && a == kind(size_t(i)).c &&
                   b == kind(size_t(j)).n)) {
        not_covered("a declared bond that is neither peptide nor disulfide");
      }
    }
  }

  void join_sulfurs(size_t i, size_t j) {
    if (partner_[i] == int(j)) return;
    if (partner_[i] >= 0 || partner_[j] >= 0) not_covered("a cysteine in two disulfides");
    partner_[i] = int(j);
    partner_[j] = int(i);
    out_.disulfides.emplace_back(int(i), int(j));
  }

  // Greedy from the first cysteine on: each takes the nearest behind it that is still free.
  void find_disulfides() {
    const int sg = tables_.cysteine_sg();
    std::vector<std::pair<double, size_t>> by_x;
    for (size_t i = 0; i < n_; ++i)
      if (residues_[i].residue_class == tables_.cysteine()) by_x.emplace_back(at(i, sg)[0], i);
    std::vector<std::pair<double, size_t>> cysteines = by_x;  // in the order of the chain
    std::sort(by_x.begin(), by_x.end());
    for (auto [x, i] : cysteines) {
      if (partner_[i] >= 0) continue;
      size_t nearest = n_;
      double nearest_sq = kDisulfide * kDisulfide;
      auto candidate = std::lower_bound(by_x.begin(), by_x.end(), std::pair(x - kDisulfide, i));
      for (; candidate != by_x.end() && candidate->first <= x + kDisulfide; ++candidate) {
        size_t j = candidate->second;
        if (j <= i || partner_[j] >= 0) continue;
        double sq = distance_sq(at(i, sg), at(j, sg));
        if (sq < nearest_sq || (sq == nearest_sq && j < nearest && nearest < n_)) {
          nearest_sq = sq;
          nearest = j;
        }
      }
      if (nearest == n_) continue;
      if (nearest_sq < kCoincident * kCoincident) not_covered("bonded atoms at one point");
      join_sulfurs(i, nearest);
    }
  }

  // OXT and the hydrogens of N must be those of a place in the chain that TMol has types for.
  void check_chain_ends() {
    for (size_t i = 0; i < n_; ++i) {
      const ResidueClass& one = kind(i);
      if (residues_[i].has(one.oxt)) {
        double sq = distance_sq(at(i, one.oxt), at(i, one.c));
        if (!(sq >= kOxtMin * kOxtMin && sq <= kOxtMax * kOxtMax) || is_bonded_to_next(i))
          not_plain("an OXT that is not a chain's end");
      }
      int n_amine = std::popcount(residues_[i].present & one.amine_hydrogens);
      if (is_bonded_to_previous(i)) {
        if (residues_[i].present & one.amine_hydrogens & ~one.amide_hydrogens)
          not_covered("an amine's hydrogens within a chain");
      } else if (n_amine > one.max_amine_hydrogens) {
        not_covered("more hydrogens on N than any form has");
      } else if (n_amine == 2 && one.has_neutral_terminus) {
        not_covered("a neutral amino terminus");
      }
    }
  }

  // Whether TMol asks for a protonation state: a count that all forms share is another.
  bool lacks_hydrogens(size_t i) const {
    for (const HydrogenCount& on : kind(i).fixed_hydrogens)
      if (std::popcount(residues_[i].present & on.hydrogens) != on.expected) return true;
    return false;
  }

  void choose_variant(size_t i) {
    const Residue& residue = residues_[i];
    const ResidueClass& one = kind(i);
    int& variant = variants_[i];
    if (partner_[i] >= 0) {
      variant = 1;
      return;
    }
    if (residue.residue_class == tables_.histidine()) {
      bool hd1 = residue.has(tables_.histidine_hd1()), he2 = residue.has(tables_.histidine_he2());
      variant = hd1 ? (he2 ? 2 : 1) : 0;
    }
    if (one.varying_hydrogens.empty()) return;
    if (lacks_hydrogens(i)) {
      // The hydrogens that are there tell; where none are, the usual state at pH 7.4.
      std::vector<int> counts;
      bool any = false;
      for (AtomSet hydrogens : one.varying_hydrogens) {
        counts.push_back(std::popcount(residue.present & hydrogens));
        any = any || counts.back() > 0;
      }
      if (!any) return;
      for (const auto& [form, expected] : one.forms)
        if (expected == counts) variant = form;
      // TMol leaves these to AtomWorks, which gives a histidine that has HD1 HE2 as well, in
      // whatever place of a chain.
      if (residue.residue_class == tables_.histidine() && variant == 1) variant = 2;
    } else if (one.has_deprotonated && one.expects_titratable[size_t(variant)] &&
               (residue.present & one.any_hydrogen) &&
               (residue.present & one.shared_hydrogen) == one.shared_hydrogen &&
               !(residue.present & one.titratable)) {
      variant = tables_.deprotonated_variant();
    }
  }

  // The atoms of the file that the best candidates lack: how many, and which.
  struct Fit {
    int n_fewest = std::numeric_limits<int>::max();
    AtomSet lost_by_any = 0, lost_by_all = 0;
  };

  Fit fit(size_t i, int terminus) const {
    Fit best;
    for (int32_t type : tables_.candidates(residues_[i].residue_class, terminus, variants_[i])) {
      AtomSet lost = residues_[i].present & tables_.block_type(type).absent;
      int n_lost = std::popcount(lost);
      if (n_lost < best.n_fewest) best = {n_lost, lost, lost};
      if (n_lost == best.n_fewest) {
        best.lost_by_any |= lost;
        best.lost_by_all &= lost;
      }
    }
    return best;
  }

  static int terminus_of(bool down, bool up) {
    return down ? (up ? kBoth : kDown) : (up ? kUp : kMid);
  }

  int terminus(size_t i) const {
    int usual = terminus_of(is_first(i), is_last(i));
    // At a gap, a terminus if that explains more of the atoms.
    int capped = terminus_of(!is_bonded_to_previous(i), !is_bonded_to_next(i));
    if (capped == usual) return usual;
    Fit before = fit(i, usual), after = fit(i, capped);
    bool loses_more = (after.lost_by_any & ~before.lost_by_all) != 0;
    return after.n_fewest < before.n_fewest && !loses_more ? capped : usual;
  }

  int block_type(size_t i) {
    const Residue& residue = residues_[i];
    // TMol's measure: atoms of the file that the type lacks count most, then atoms of the type
    // that the file lacks (those a terminus adds left out), then an unusual terminus.
    constexpr int kWeightOfLost = 4 * kMaxCanonical;
    int best = -1, best_score = std::numeric_limits<int>::max();
    for (int32_t type : tables_.candidates(residue.residue_class, terminus(i), variants_[i])) {
      const BlockType& candidate = tables_.block_type(type);
      int score = kWeightOfLost * std::popcount(residue.present & candidate.absent) +
                  2 * std::popcount(candidate.nonterminal & ~residue.present) +
                  candidate.is_non_default_terminus;
      if (score < best_score) {
        best_score = score;
        best = type;
      }
    }
    if (best < 0) not_covered("a residue without a block type at its place in the chain");
    AtomSet lost = residue.present & tables_.block_type(best).absent;
    if (std::popcount(lost) > 1) not_covered("hydrogens of a form without a block type");
    input_.counts[TP_HYDROGENS_UNUSED] += std::popcount(lost) + residue.n_unknown_hydrogens;
    if (lost & (kind(i).required | bit(kind(i).oxt)))
      not_covered("a heavy atom that no block type has");
    return best;
  }

  void connect() {
    int n_connections = 0;
    for (Block& block : out_.blocks) {
      block.connection_begin = n_connections;
      n_connections += tables_.block_type(block.type).n_connections;
    }
    out_.connections.resize(size_t(n_connections));
    auto join = [this](size_t i, int a, size_t j, int b) {
      if (a < 0 || b < 0) not_covered("a bond that a block type has no connection for");
      out_.connections[size_t(out_.blocks[i].connection_begin + a)] = {int(j), b};
      out_.connections[size_t(out_.blocks[j].connection_begin + b)] = {int(i), a};
    };
    auto type = [this](size_t i) { return tables_.block_type(out_.blocks[i].type); };
    for (size_t i = 0; i + 1 < n_; ++i)
      if (is_bonded_to_next(i)) join(i, type(i).up, i + 1, type(i + 1).down);
    for (auto [i, j] : out_.disulfides)
      join(size_t(i), type(size_t(i)).disulfide, size_t(j), type(size_t(j)).disulfide);
  }

  const Tables& tables_;
  Residues& input_;
  const std::vector<Residue>& residues_;
  const size_t n_;
  std::vector<int> chain_, variants_;
  std::vector<int> partner_;  // in a disulfide, -1 if there is none
  std::vector<bool> broken_after_;
  Typing out_;
};

}  // namespace

Typing assign_block_types(const Tables& tables, Residues& residues) {
  return Typist(tables, residues).run();
}

}  // namespace tmol_plugin
