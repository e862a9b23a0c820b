# Licence texts as a table in C (licenses.h): weir's own, and those of the libraries that are linked into the
# program, NAME.txt each in the folder LIBRARIES (empty: libraries are shared, and the system's).
#
#   cmake -DOUR=LICENSE -DLIBRARIES=FOLDER -DOUTPUT=FILE -P licenses.cmake
#
# A byte of 128 or more (texts are UTF-8) is no number that every char takes: all bytes are character constants.
set(rows "")
set(texts "")
set(n 0)
function(add name file)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," hex "${hex}")
  set(texts "${texts}static const char text_${n}[] = {\n${hex}0};\n" PARENT_SCOPE)
  set(rows "${rows}    {\"${name}\", text_${n}},\n" PARENT_SCOPE)
  math(EXPR n "${n} + 1")
  set(n ${n} PARENT_SCOPE)
endfunction()
add(weir "${OUR}")
if(LIBRARIES)
  file(GLOB files "${LIBRARIES}/*.txt")
  list(SORT files)
  foreach(file ${files})
    get_filename_component(name "${file}" NAME_WLE)
    add(${name} "${file}")
  endforeach()
endif()
file(WRITE "${OUTPUT}" "// Made by licenses.cmake.
#include \"cli/help/licenses.h\"

#include <stddef.h>

${texts}
const struct license licenses[] = {
${rows}    {NULL, NULL}};
")
