# Building for musl, statically, with the compiler and libraries of packaging/libraries, whose folder is WEIR_LIBRARIES.
# Started by packaging/static. Folders are given to commands of CMake, which quote them as the build's shell needs it; in
# CMAKE_C_FLAGS_INIT and by pkg-config they would be words of a line.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEIR_LIBRARIES WEIR_ARCH)
set(CMAKE_C_COMPILER "${WEIR_LIBRARIES}/bin/cc")
set(CMAKE_AR "${WEIR_LIBRARIES}/bin/ar")
set(CMAKE_RANLIB "${WEIR_LIBRARIES}/bin/ranlib")
if(NOT WEIR_ARCH STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${WEIR_ARCH})
endif()
set(ENV{PKG_CONFIG_LIBDIR} "${WEIR_LIBRARIES}/lib/pkgconfig")
set(ENV{PKG_CONFIG_PATH} "")
include_directories(SYSTEM "${WEIR_LIBRARIES}/include")
link_directories("${WEIR_LIBRARIES}/lib")
set(CMAKE_SKIP_RPATH ON CACHE BOOL "Nothing is shared")
# Assertions name files without the folder that they were built in.
get_filename_component(WEIR_ROOT "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
add_compile_options("-ffile-prefix-map=${WEIR_ROOT}=.")
# The compiler leaves assertions out with -O2; ours stay.
set(CMAKE_C_FLAGS_INIT "-UNDEBUG")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -s")
# No library of this machine is found in place of ours.
set(CMAKE_FIND_ROOT_PATH "${WEIR_LIBRARIES}")
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
