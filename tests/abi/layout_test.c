/* Programs that were built with an older attnjit.h run with this library: no member of its structs has moved, and
   structs that hold no size of their own have not grown. Compiling this is the test. */
#include <attnjit.h>

#define ATTNJIT_MEMBER(type, member, offset) \
  _Static_assert(offsetof(type, member) == (offset), #type "." #member " has moved since " ATTNJIT_SINCE);
#define ATTNJIT_SIZE(type, bytes) _Static_assert(sizeof(type) >= (bytes), #type " has shrunk since " ATTNJIT_SINCE);
#define ATTNJIT_SINCE "0.1"
#include "layout_0_1.h"
#undef ATTNJIT_SINCE
#define ATTNJIT_SINCE "0.2"
#include "layout_0_2.h"

_Static_assert(sizeof(attnjit_tensor) == 80, "attnjit_tensor has no struct_size, and other structs hold it");
_Static_assert(sizeof(attnjit_prepared_mask) == 48, "attnjit_prepared_mask has no struct_size");
