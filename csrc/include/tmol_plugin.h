/* The C ABI of the native library: all that crosses between Python and C++.
 *
 * Callers check types and shapes of what they pass (tmol_plugin/native.py does). A function
 * that can fail takes `error`, a buffer of `error_size` bytes for a message ending in NUL,
 * and says by its result that it failed. No C++ exception leaves a function.
 */
#ifndef TMOL_PLUGIN_H_
#define TMOL_PLUGIN_H_

#include <stdint.h>

#define TP_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* An array by name. Its elements' type follows from the name. */
typedef struct {
  const char* name;
  const void* data;
  int64_t n_bytes;
} tp_array;

/* The version of the package that the library was built from. */
TP_EXPORT const char* tp_version(void);

/* The compiled chemistry. */
typedef struct tp_tables tp_tables;

/* Tables that read from `arrays`, whose data (not names) must outlive them; NULL on failure. */
TP_EXPORT tp_tables* tp_tables_create(const tp_array* arrays, int32_t n_arrays, char* error,
                                      int64_t error_size);

/* NULL is ignored. */
TP_EXPORT void tp_tables_free(tp_tables* tables);

#ifdef __cplusplus
}
#endif

#endif
