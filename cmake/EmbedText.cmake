# cmake -D OUTPUT=file.cpp -D FILES="a;b" -D HEADER=room/name.hpp -D FUNCTION=ns::name -P EmbedText.cmake
# Defines FUNCTION, which HEADER declares to return std::string_view: the contents of FILES, one after
# another.
set(text "#include \"${HEADER}\"\n\nstd::string_view ${FUNCTION}() {\n  return")
foreach(file ${FILES})
  file(READ ${file} content)
  string(APPEND text " R\"__attnjit__(${content})__attnjit__\"")
endforeach()
if(NOT FILES)
  string(APPEND text " \"\"")
endif()
file(WRITE ${OUTPUT} "${text};\n}\n")
