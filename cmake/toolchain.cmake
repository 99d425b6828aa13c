# Compiler settings: language standard, warnings, sanitizers, CUDA. Included once by the top CMakeLists.txt; sets
# STROBE_HAS_CUDA.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Targets with hot loops, such as strobe_attention, add -O3.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Flags of sanitizer builds, with line numbers and assertions. -Og code is fast enough for the tests; with -O1,
# compiling would take 1.5 times as long.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_SANITIZE "-Og -g1 -fno-omit-frame-pointer")
endforeach()

if(STROBE_CUDA STREQUAL "AUTO" OR STROBE_CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(STROBE_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(STROBE_NVCC)
    if(STROBE_NVCC)
      set(CMAKE_CUDA_COMPILER ${STROBE_NVCC})
    elseif(NOT STROBE_CUDA STREQUAL "AUTO")
      message(FATAL_ERROR "STROBE_CUDA=${STROBE_CUDA} but no nvcc in PATH, CUDA_HOME or /usr/local/cuda")
    endif()
  endif()
endif()
set(STROBE_HAS_CUDA OFF)
if(CMAKE_CUDA_COMPILER)
  set(STROBE_HAS_CUDA ON)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    # Machine code for Ampere and Hopper, and PTX for later GPUs.
    set(CMAKE_CUDA_ARCHITECTURES "80;90a-real")
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 (Debian 12) does not know this nvcc option
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  # Options of STROBE_QUICK_CUDA. Hopper kernels are compiled without them, because ptxas serialises wgmma unless it
  # optimises. Not tested with nvcc before 13.
  if(STROBE_QUICK_CUDA AND CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    set(STROBE_QUICK_CUDA_OPTIONS --Ofast-compile=max)
  endif()
endif()

# Warnings and sanitizers for Strobe's own targets, not for included libraries.
add_library(strobe_options INTERFACE)
target_compile_options(strobe_options INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>  # g++ 12 warns about "text" + std::string
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
if(STROBE_WERROR)
  target_compile_options(strobe_options INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
    # These g++ warnings depend on inlining and the optimisation level, so they are not errors.
    $<$<OR:$<COMPILE_LANG_AND_ID:C,GNU>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-error=array-bounds$<SEMICOLON>-Wno-error=stringop-overflow$<SEMICOLON>-Wno-error=maybe-uninitialized>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
endif()
if(STROBE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${STROBE_SANITIZE}>)
  add_link_options(-fsanitize=${STROBE_SANITIZE})
  if(STROBE_SANITIZE MATCHES "undefined")
    add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=all>)
    if(STROBE_SANITIZE MATCHES "address")  # AddressSanitizer finds the errors of these checks, which take a third of the time
      add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=null,object-size,pointer-overflow>)
    endif()
  endif()
endif()
