// Vectors in space over any scalar: a float, a double, or several floats side by side.
#pragma once

#include <cmath>

// Marks what is compiled for the host and, by nvcc, for devices.
#ifdef __CUDACC__
#define TP_FN __host__ __device__ inline
#else
#define TP_FN inline __attribute__((always_inline))
#endif

namespace tmol_plugin {

template <class S>
struct Vec3 {
  S x, y, z;

  friend TP_FN Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend TP_FN Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
  friend TP_FN Vec3 operator*(S s, Vec3 a) { return {s * a.x, s * a.y, s * a.z}; }
};

template <class S>
TP_FN S dot(Vec3<S> a, Vec3<S> b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

template <class S>
TP_FN Vec3<S> cross(Vec3<S> a, Vec3<S> b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

template <class S>
TP_FN S norm(Vec3<S> a) {
  using std::sqrt;
  return sqrt(dot(a, a));
}

}  // namespace tmol_plugin
