#pragma once

#if defined(ATTNJIT_STATIC)
#define ATTNJIT_EXPORT
#else
#define ATTNJIT_EXPORT __attribute__((visibility("default")))
#endif
