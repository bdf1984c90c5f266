# cmake -D OUTPUT=file.cpp -D ROOT=dir -D FILES="a;b" -D HEADER=room/name.hpp -D FUNCTION=ns::name
#       -P EmbedTemplates.cmake
# Defines FUNCTION, which HEADER declares to return std::span<const codegen::TemplateFile>: every file
# of FILES as {name, text}. The literals carry their lengths: to count them is more than clang does in
# a constant expression.
set(text "#include \"${HEADER}\"\n\n#include \"codegen/templates.hpp\"\n\n")
string(APPEND text "std::span<const attnjit::codegen::TemplateFile> ${FUNCTION}() {\n")
string(APPEND text "  using namespace std::string_view_literals;\n")
string(APPEND text "  static constexpr attnjit::codegen::TemplateFile kFiles[] = {\n")
foreach(name ${FILES})
  file(READ ${ROOT}/${name} content)
  string(APPEND text "      {\"${name}\", R\"__attnjit__(${content})__attnjit__\"sv},\n")
endforeach()
string(APPEND text "  };\n  return kFiles;\n}\n")
file(WRITE ${OUTPUT} "${text}")
