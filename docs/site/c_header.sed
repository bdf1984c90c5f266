# attnjit.h as doxygen reads it: comments ahead of a declaration document it, those behind one on its line as well; what
# all structs have gets the same words. What opens the file is not of its first type.
1,/\*\//b
s/\bATTNJIT_EXPORT //
s/size_t struct_size;/size_t struct_size; \/**< sizeof(this struct), which its _INIT macro sets *\//
s/^( *)\/\*( |$)/\1\/** /
s/([^ ] +)\/\* /\1\/**< /
s/^#define ATTNJIT_\w+_INIT/\/** An initialiser: the size of the struct, and zero for all else *\/ &/
