// Gives every call its site: declares name_at for each function of backend.h that records, can fail or
// syncs, and makes the plain names macros that pass one constant string. Made by tools/make_sites.py.
// Define TC_NO_SITES before backend.h to leave the names alone.
// clang-format off
#ifndef TC_BACKEND_SITES_H
#define TC_BACKEND_SITES_H

#ifdef __cplusplus
extern "C" {
#endif

TC_API tc_status tc_backend_load_at(const char *path, const char **out_device, tc_site site) TC_MUST_USE;

#ifdef __cplusplus
}
#endif

#ifndef TC_NO_SITES


#define tc_backend_load(path, ...) tc_backend_load_at(path, __VA_ARGS__, TC_HERE)

#endif

// What is wrong in a call is told at the caller's line: by clang always, by gcc where the macro is a system header's.
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpedantic"
#pragma clang diagnostic ignored "-Wvariadic-macros"
#else
#pragma GCC system_header
#endif

#ifndef TC_NO_SITES


#endif

#ifdef __clang__
#pragma clang diagnostic pop
#endif

#endif
