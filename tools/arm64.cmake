# Cross building for AArch64, with Debian's compiler; tests run under qemu-user. Started by tools/arm64,
# which puts the libraries where WEIR_ARM64_ROOT says.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WEIR_ARM64_ROOT)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
set(libraries ${WEIR_ARM64_ROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${WEIR_ARM64_ROOT})
set(CMAKE_C_FLAGS_INIT
  "-isystem ${WEIR_ARM64_ROOT}/usr/include -isystem ${WEIR_ARM64_ROOT}/usr/include/aarch64-linux-gnu")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${libraries} -Wl,-rpath,${libraries}")
set(CMAKE_FIND_ROOT_PATH ${WEIR_ARM64_ROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
