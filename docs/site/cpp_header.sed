# A C++ header as doxygen reads it: names without the inline namespace of a version, and without marks of exports.
s/::inline ATTNJIT_CPP_VERSION//
s/\bATTNJIT_EXPORT //
