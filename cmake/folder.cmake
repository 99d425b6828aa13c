# strobe_folder(<name> [DEPENDS <target>...])
#
# Adds the library strobe_<name> from the sources in src/<name>, which are found by globbing:
#   *.cpp, also in subfolders     always, except:
#   no_<library>.cpp              only without that library (no_cuda.cpp, no_cudnn.cpp)
#   cuda/**, *.cu                 only with CUDA
#   cudnn/**                      only with the headers of cudnn-frontend
#   cupti/**, nvtx/**             only with the toolkit's headers for them
#   openblas/**, onednn/**, mpi/**, nccl/**  only with that library
#   isa/*.cpp                     never; strobe_instruction_sets() adds them with their flags
function(strobe_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cpp *.cu)
  list(FILTER sources EXCLUDE REGEX "(^|/)isa/")
  if(NOT STROBE_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "\\.cu$")
  endif()
  set(STROBE_HAS_ONEDNN ${dnnl_FOUND})
  set(STROBE_HAS_OPENBLAS ${STROBE_OPENBLAS})
  foreach(library cuda cudnn cupti nvtx openblas onednn mpi nccl)
    string(TOUPPER ${library} upper)
    if(STROBE_HAS_${upper})
      list(FILTER sources EXCLUDE REGEX "(^|/)no_${library}\\.cpp$")
    else()
      list(FILTER sources EXCLUDE REGEX "(^|/)${library}/")
    endif()
  endforeach()

  set(target strobe_${name})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE strobe_options)
  # The run time of these folders does not matter. -Og compiles in half the time of -O2, -O1 in two thirds.
  if(name MATCHES "^(results|report)$")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Og>)
  elseif(name MATCHES "^(app|process|bench|lm|comm|solve)$")
    target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  endif()
  if(name MATCHES "^(measure|app|process|comm|bench|results|report)$")
    strobe_sanitized_briefly(${target} PRIVATE)
  endif()
  if(name MATCHES "^(core|measure|app|process|solve|comm|bench|lm|results|report)$")  # all folders except those with numeric C++
    strobe_in_batches(${target})
  else()
    strobe_precompiled(${target})
  endif()
  strobe_cuda_in_batches(${target})
  set_property(GLOBAL APPEND PROPERTY STROBE_FOLDERS ${target})
endfunction()

# strobe_in_batches(<target>)
#
# Compiles sources in unity builds of 32 files, because most of the compile time is spent in headers. Names in the
# unnamed namespaces of a folder must therefore differ or be overloads. -DSTROBE_BATCHES=OFF compiles each file
# separately.
function(strobe_in_batches target)
  if(STROBE_BATCHES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 32)
  endif()
endfunction()

# strobe_sanitized_briefly(<target> <scope>)
#
# Makes AddressSanitizer check memory accesses by function calls instead of inline code, in the target (PRIVATE) or in
# targets that link it (INTERFACE). This reduces compile time by a sixth and finds the same errors. Only g++ has the
# flag.
function(strobe_sanitized_briefly target scope)
  if(STROBE_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} ${scope} --param=asan-instrumentation-with-call-threshold=0)
  endif()
endfunction()

# strobe_cuda_in_batches(<target>)
#
# Compiles .cu files in batches of five, because nvcc parses the headers of each file four times and CMake's unity
# builds exclude .cu files. Instances of the large kernels (d64.cu, strobe_cuda_instances) are compiled separately.
function(strobe_cuda_in_batches target)
  if(NOT STROBE_HAS_CUDA OR NOT STROBE_BATCHES)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cu$")
  list(FILTER sources EXCLUDE REGEX "/d[0-9]+\\.cu$|/sm90/")
  set_source_files_properties(${sources} PROPERTIES HEADER_FILE_ONLY ON)
  list(LENGTH sources count)
  set(index 0)
  set(text "")
  foreach(source IN LISTS sources)
    string(APPEND text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
    math(EXPR index "${index} + 1")
    math(EXPR filled "${index} % 5")
    if(filled EQUAL 0 OR index EQUAL count)
      set(batch ${CMAKE_CURRENT_BINARY_DIR}/batches/to_${index}.cu)
      file(CONFIGURE OUTPUT ${batch} CONTENT "${text}")
      target_sources(${target} PRIVATE ${batch})
      set(text "")
    endif()
  endforeach()
endfunction()

# strobe_cuda_instances(<target> <folder> <template> <arguments>...)
#
# Compiles <folder>/kernel.cuh once per argument. For each one, a file in the build tree instantiates
# strobe::cuda::<template><argument>. Write two template arguments as "192,128".
function(strobe_cuda_instances target folder template)
  foreach(arguments IN LISTS ARGN)
    string(REPLACE "," "x" suffix ${arguments})
    set(instance ${CMAKE_CURRENT_BINARY_DIR}/instances/${folder}/d${suffix}.cu)
    file(CONFIGURE OUTPUT ${instance} CONTENT
      "#include \"attention/${folder}/kernel.cuh\"\n\ntemplate struct strobe::cuda::${template}<${arguments}>;\n")
    target_sources(${target} PRIVATE ${instance})
  endforeach()
endfunction()

# strobe_precompiled(<target>)
#
# Precompiles the headers that nearly every file includes. This saves 0.8 s of the 1.4 s that a small file takes, and
# costs 3 s per target. Sources with their own compile options must set SKIP_PRECOMPILE_HEADERS. STROBE_BATCHES=OFF
# disables precompiled headers.
function(strobe_precompiled target)
  if(STROBE_BATCHES)
    target_precompile_headers(${target} PRIVATE <fmt/format.h> <algorithm> <optional> <span> <string> <vector>)
  endif()
endfunction()
