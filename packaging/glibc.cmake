# Building for every glibc from WEIR_GLIBC on, with the compiler of packaging/libraries: as static.cmake does for musl. The
# libraries of that folder are musl's; they are there to be configured with, and nothing may be linked but the C library.
include("${CMAKE_CURRENT_LIST_DIR}/static.cmake")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEIR_GLIBC)
# Of two targets the compiler takes the last one.
set(CMAKE_C_FLAGS_INIT "-UNDEBUG -target ${WEIR_ARCH}-linux-gnu.${WEIR_GLIBC} -fPIE")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-pie -s")
