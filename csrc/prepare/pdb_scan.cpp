// Checks what a parser by columns would read otherwise than it is meant, line by line.
#include "prepare/pdb_scan.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tmol_plugin {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string_view stripped(std::string_view field) {
  size_t first = field.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return field.substr(first, field.find_last_not_of(' ') - first + 1);
}

// Columns [from, to) of a line, cut where it ends.
std::string_view columns(std::string_view line, size_t from, size_t to) {
  return from < line.size() ? line.substr(from, to - from) : std::string_view();
}

std::optional<int> integer(std::string_view field) {
  field = stripped(field);
  bool negative = !field.empty() && field[0] == '-';
  if (negative) field.remove_prefix(1);
  if (field.empty() || field.size() > 9) return std::nullopt;
  int value = 0;
  for (char c : field) {
    if (!is_digit(c)) return std::nullopt;
    value = 10 * value + (c - '0');
  }
  return negative ? -value : value;
}

// Digits with at most one point among them, a sign before: no exponent, no "nan", no blank.
bool is_plain_number(std::string_view field) {
  field = stripped(field);
  if (!field.empty() && (field[0] == '-' || field[0] == '+')) field.remove_prefix(1);
  int digits = 0, points = 0;
  for (char c : field) {
    digits += is_digit(c);
    points += c == '.';
    if (!is_digit(c) && c != '.') return false;
  }
  return digits > 0 && points <= 1;
}

template <size_t N>
void copy_name(char (&target)[N], std::string_view field) {
  field = stripped(field);
  std::memset(target, 0, N);
  std::copy_n(field.begin(), std::min(field.size(), N), target);
}

tp_partner partner(std::string_view line, size_t chain, size_t number, std::string_view atom) {
  tp_partner one{};
  copy_name(one.chain, columns(line, chain, chain + 1));
  copy_name(one.atom, atom);
  // A number that cannot be read is no residue's.
  one.number = integer(columns(line, number, number + 4)).value_or(INT32_MIN);
  one.insertion_code = line.size() > number + 4 ? line[number + 4] : ' ';
  return one;
}

struct Serials {
  std::vector<int> values;  // ascending

  int32_t atom(std::string_view field) const {
    std::optional<int> serial = integer(field);
    if (!serial) return -1;
    auto found = std::lower_bound(values.begin(), values.end(), *serial);
    return found != values.end() && *found == *serial ? int32_t(found - values.begin()) : -1;
  }
};

// What is not plain about an atom's line; nullptr if nothing is.
const char* strange(std::string_view line) {
  if (line.find_last_not_of(" \t") + 1 < 54) return "a line that ends within the coordinates";
  for (size_t column : {30, 38, 46})
    if (!is_plain_number(line.substr(column, 8))) return "a coordinate that is no plain number";
  if (line[20] != ' ') return "a residue or chain name of more letters than usual";
  if (line[21] == ' ' && !stripped(columns(line, 72, 76)).empty()) return "a segment for a chain";
  if (!integer(line.substr(22, 4))) return "a residue number that is none";
  if (line[26] == '\t' || line[16] == '\t') return "tabs";
  // Past column 54 and not up to 60, readers differ.
  if (line.find_last_not_of(' ') + 1 > 54 &&
      (line.size() < 60 || !is_plain_number(line.substr(54, 6))))
    return "an occupancy that is no plain number";
  return nullptr;
}

}  // namespace

PdbScan scan_pdb(std::string_view text, int wanted) {
  PdbScan out;
  Serials serials;
  std::vector<std::string_view> conect;
  std::vector<int> numbers;  // of the models so far
  bool within = false, is_wanted = false, is_numbered = true;
  int segment = 0;
  char chain = 0;
  bool has_chain = false;
  auto not_plain = [&out](const char* why) {
    if (!out.not_plain) out.not_plain = why;
  };
  auto begin_model = [&](int number) {
    within = true;
    is_wanted = number == wanted;
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end() || number < 1)
      not_plain("models without numbers of their own");
    numbers.push_back(number);
  };
  for (size_t start = 0; start < text.size();) {
    size_t stop = text.find('\n', start);
    if (stop == std::string_view::npos) stop = text.size();
    std::string_view line = text.substr(start, stop - start);
    std::string_view record = columns(line, 0, 6);
    if (record == "ATOM  " || record == "HETATM") {
      if (!within) {
        // Atoms after the end of a model are one more, without a number.
        is_numbered = is_numbered && numbers.empty();
        begin_model(1);
      }
      if (is_wanted) {
        if (const char* why = strange(line)) {
          not_plain(why);
          return out;
        }
        std::optional<int> serial = integer(line.substr(6, 5));
        if (!serial || (!serials.values.empty() && *serial <= serials.values.back())) {
          not_plain("serials that do not increase");
          return out;
        }
        if (has_chain && line[21] != chain) ++segment;
        chain = line[21];
        has_chain = true;
        if (out.segments.empty()) out.begin = start;
        out.end = std::min(stop + 1, text.size());  // with its line feed, which gemmi counts
        serials.values.push_back(*serial);
        out.segments.push_back(segment);
      }
    } else if (line.starts_with("TER")) {
      if (within && is_wanted) {
        ++segment;
        has_chain = false;
      }
    } else if (record == "MODEL ") {
      std::optional<int> number = integer(columns(line, 6, std::string_view::npos));
      if (!number) {
        not_plain("models without numbers of their own");
        return out;
      }
      begin_model(*number);
    } else if (record == "ENDMDL" || stripped(line) == "END") {
      within = false;
    } else if (record == "CONECT") {
      conect.push_back(line);
    } else if (record == "SSBOND" && line.size() >= 32) {
      if (stripped(columns(line, 59, 65)) == stripped(columns(line, 66, 72))) {
        out.partners.push_back(partner(line, 15, 17, "SG"));
        out.partners.push_back(partner(line, 29, 31, "SG"));
      }
    } else if (record == "LINK  " && line.size() >= 57) {
      if (stripped(columns(line, 59, 65)) == stripped(columns(line, 66, 72))) {
        out.partners.push_back(partner(line, 21, 22, columns(line, 12, 16)));
        out.partners.push_back(partner(line, 51, 52, columns(line, 42, 46)));
      }
    }
    start = stop + 1;
  }
  if (!is_numbered) not_plain("models without numbers of their own");
  if (out.segments.empty()) not_plain("no atoms in the model");
  for (std::string_view line : conect) {
    int32_t first = serials.atom(columns(line, 6, 11));
    for (size_t column = 11; column < 31; column += 5) {
      int32_t second = serials.atom(columns(line, column, column + 5));
      if (first < 0 || second < 0) continue;
      out.bonds.push_back(first);
      out.bonds.push_back(second);
    }
  }
  return out;
}

}  // namespace tmol_plugin
