#pragma once

/* The inline namespace of all C++ names: one for each minor version, since C++ promises nothing before 1.0. A
   program that was built with the headers of another one finds no symbol and does not start; one that uses
   attnjit.h alone does. */
#define ATTNJIT_CPP_VERSION v0_2

#if defined(ATTNJIT_STATIC)
#define ATTNJIT_EXPORT
#else
#define ATTNJIT_EXPORT __attribute__((visibility("default")))
#endif
