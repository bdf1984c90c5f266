# cmake -D OUTPUT=file.cpp -D FILE=text -D HEADER=room/name.hpp -D FUNCTION=ns::name -P EmbedText.cmake
# Defines FUNCTION, which HEADER declares to return std::string_view: the contents of FILE.
file(READ ${FILE} content)
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n
std::string_view ${FUNCTION}() {\n  return R\"__attnjit__(${content})__attnjit__\";\n}\n")
