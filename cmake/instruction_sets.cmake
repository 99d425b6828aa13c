# strobe_instruction_sets(<target>)
#
# Adds cpu/isa/<name>.cpp of the current folder to the target, one file per instruction set, with the set's compiler
# flags. Other code is built for the baseline architecture; cpu/isa.cpp selects an instruction set at run time. These
# files are optimised in every build type, because unoptimised kernels are too slow to test. Sanitizer builds use -Og:
# -O3 would compile for minutes.
set(isa_optimised -O3)
if(STROBE_SANITIZE)
  set(isa_optimised -Og)
endif()
set(isa_generic "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(isa_names generic neon neonbf16)
  set(isa_neon "")
  set(isa_neonbf16 -march=armv8.2-a+bf16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(isa_names generic avx2 avx512 avx512bf16 amx)
  set(isa_avx2 -mavx2 -mfma -mf16c)
  set(isa_avx512 ${isa_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512)
  set(isa_avx512bf16 ${isa_avx512} -mavx512bf16)
  set(isa_amx ${isa_avx512bf16} -mamx-tile -mamx-bf16)
else()
  set(isa_names generic)
endif()

function(strobe_instruction_sets target)
  foreach(name IN LISTS isa_names)
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/cpu/isa/${name}.cpp)
    if(EXISTS ${source})
      set_property(TARGET ${target} APPEND PROPERTY STROBE_ISA_BUILT ${name})
      target_sources(${target} PRIVATE ${source})
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
        COMPILE_OPTIONS "${isa_optimised};-fno-math-errno;-fno-trapping-math;-fno-exceptions;${isa_${name}}")
    endif()
  endforeach()
endfunction()
