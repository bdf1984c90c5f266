# cmake -D OUTPUT=file.cpp -D ROOT=dir -D FILES="a;b" -P EmbedTemplates.cmake
# Writes attnjit::codegen::embedded_templates(): every file of FILES as {name, text}.
set(text "#include \"codegen/templates.hpp\"\n\nnamespace attnjit::codegen {\n\n")
string(APPEND text "std::span<const TemplateFile> embedded_templates() {\n")
string(APPEND text "  static constexpr TemplateFile kFiles[] = {\n")
foreach(name ${FILES})
  file(READ ${ROOT}/${name} content)
  string(APPEND text "      {\"${name}\", R\"__attnjit__(${content})__attnjit__\"},\n")
endforeach()
string(APPEND text "  };\n  return kFiles;\n}\n\n}  // namespace attnjit::codegen\n")
file(WRITE ${OUTPUT} "${text}")
