// Vectors, and the place of an atom from three others.
#pragma once

#include <cmath>

namespace tmol_plugin {

struct Vector {
  double x, y, z;

  Vector operator-(Vector b) const { return {x - b.x, y - b.y, z - b.z}; }
  Vector operator*(double s) const { return {x * s, y * s, z * s}; }
  Vector operator+(Vector b) const { return {x + b.x, y + b.y, z + b.z}; }
  double norm() const { return std::sqrt(x * x + y * y + z * z); }
};

inline Vector cross(Vector a, Vector b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// The point at `distance` from `parent`, with the angle at parent towards `grandparent` and the
// dihedral around that bond measured from `reference`. Angles in radians.
inline Vector place(Vector parent, Vector grandparent, Vector reference, double distance,
                    double angle, double dihedral) {
  Vector along = parent - grandparent;
  along = along * (1 / along.norm());
  Vector normal = cross(along, reference - grandparent);
  double length = normal.norm();
  // On a line they span no plane: the result is not finite.
  normal = normal * (1 / length);
  Vector across = cross(normal, along);
  double radius = distance * std::sin(angle);
  return parent + along * (-distance * std::cos(angle)) + across * (radius * std::cos(dihedral)) +
         normal * (radius * std::sin(dihedral));
}

}  // namespace tmol_plugin
