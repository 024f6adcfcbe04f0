# executorch_ggml_isa_sources(<variable> <source>...)
# executorch_ggml_add_isa_kernels(<target> <source>...)
#
# The first filters the sources that are compiled for instruction sets: those named *_isa.cpp, for each of generic and,
# on x86, avx2 and avx512, and those in a folder that is named for an instruction set, for that one. The second compiles them and adds
# the objects to <target>. A source puts its code into
#
#     namespace executorch_ggml::kernels::KERNEL_ISA { ... }
#
# where KERNEL_ISA is defined as the instruction set. The rest of <target> sees EXECUTORCH_GGML_ISA_AVX2,
# EXECUTORCH_GGML_ISA_AVXVNNI, EXECUTORCH_GGML_ISA_AVX512, EXECUTORCH_GGML_ISA_AVX512VNNI,
# EXECUTORCH_GGML_ISA_AVX512BF16 and EXECUTORCH_GGML_ISA_AMX, or on ARM64 EXECUTORCH_GGML_ISA_NEON,
# EXECUTORCH_GGML_ISA_DOTPROD, EXECUTORCH_GGML_ISA_I8MM and EXECUTORCH_GGML_ISA_NEONBF16, defined as 1 where those
# variants exist, and picks one at run time (native/runtime/kernels/simd/isa.h).

include(CheckCXXCompilerFlag)

set(_isa_flags_neon -march=armv8-a)
set(_isa_flags_dotprod -march=armv8.2-a+dotprod)
set(_isa_flags_i8mm -march=armv8.2-a+dotprod+i8mm)
set(_isa_flags_neonbf16 -march=armv8.2-a+dotprod+i8mm+bf16)
set(_isa_flags_avx2 -mavx2 -mfma -mf16c)
set(_isa_flags_avxvnni ${_isa_flags_avx2} -mavxvnni)
set(_isa_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c)
set(_isa_flags_avx512vnni ${_isa_flags_avx512} -mavx512vnni)
set(_isa_flags_avx512bf16 ${_isa_flags_avx512vnni} -mavx512bf16)
set(_isa_flags_amx ${_isa_flags_avx512vnni} -mamx-tile -mamx-int8 -mamx-bf16)
# What a CPU of a level runs too, and what is chosen by it (has() in isa.cpp).
set(_isa_below_dotprod neon)
set(_isa_below_i8mm neon dotprod)
set(_isa_below_neonbf16 neon dotprod i8mm)
set(_isa_below_avxvnni avx2)
set(_isa_below_avx512 avx2)
set(_isa_below_avx512vnni avx2 avx512)
set(_isa_below_avx512bf16 avx2 avx512 avx512vnni)
set(_isa_below_amx avx2 avx512 avx512vnni avx512bf16)
set(_isa_variants generic avx2 avx512)  # of *_isa.cpp
set(_isa_folder "/(neon|dotprod|i8mm|neonbf16|avx2|avxvnni|avx512|avx512vnni|avx512bf16|amx)/[^/]*\\.cpp$")

function(executorch_ggml_isa_sources variable)
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "_isa\\.cpp$|${_isa_folder}")
  set(${variable} "${sources}" PARENT_SCOPE)
endfunction()

# The instruction sets that this compiler and processor family have, beside generic.
function(_executorch_ggml_isas variable)
  set(isas "")
  set(known "")
  set(wanted "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(known avx2 avxvnni avx512 avx512vnni avx512bf16 amx)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
    set(known neon dotprod i8mm neonbf16)
  endif()
  foreach(level IN LISTS EXECUTORCH_GGML_LEVELS)
    if(NOT level IN_LIST known AND NOT level STREQUAL "generic")
      list(JOIN known ", " names)
      message(FATAL_ERROR "EXECUTORCH_GGML_LEVELS has ${level}; expected generic or some of ${names}.")
    endif()
    list(APPEND wanted ${level} ${_isa_below_${level}})
  endforeach()
  foreach(isa IN LISTS known)
    if(EXECUTORCH_GGML_LEVELS AND NOT isa IN_LIST wanted)
      continue()
    endif()
    list(JOIN _isa_flags_${isa} " " flags)
    string(TOUPPER "${isa}" upper)
    check_cxx_compiler_flag("${flags}" EXECUTORCH_GGML_COMPILER_HAS_${upper})
    if(EXECUTORCH_GGML_COMPILER_HAS_${upper})
      list(APPEND isas ${isa})
    endif()
  endforeach()
  set(${variable} "${isas}" PARENT_SCOPE)
endfunction()

# An inline function or template instance that is compiled for AVX may be the copy that the linker keeps for everybody,
# and then older processors stop at it. Optimized objects of these sources must therefore share no symbol with others.
function(_executorch_ggml_check_objects objects isa)
  if(EXECUTORCH_GGML_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug" OR NOT CMAKE_NM)
    return()
  endif()
  set(stamp "${CMAKE_CURRENT_BINARY_DIR}/${objects}.checked")
  add_custom_command(
    OUTPUT "${stamp}"
    COMMAND "${CMAKE_COMMAND}" "-DNM=${CMAKE_NM}" "-DISA=${isa}" "-DOBJECTS=$<JOIN:$<TARGET_OBJECTS:${objects}>,;>"
            -P "${PROJECT_SOURCE_DIR}/cmake/check_objects.cmake"
    COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
    DEPENDS ${objects} $<TARGET_OBJECTS:${objects}>
    COMMENT "Checking the symbols of ${objects}"
    VERBATIM
  )
  add_custom_target(${objects}_checked ALL DEPENDS "${stamp}")
endfunction()

# Sums, inputs and weights of tiles take all registers of ARM64 and AVX2: compilers that move loads up before they
# allocate registers spill sums, and so does GCC's default allocator.
function(_executorch_ggml_keep_tiles_in_registers)
  set(bfloats ${ARGN})
  list(FILTER bfloats INCLUDE REGEX "/neonbf16/conv_2d\\.cpp$")
  set(floats ${ARGN})
  list(FILTER floats INCLUDE REGEX "/conv_2d_isa\\.cpp$")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      set(is_avx2 $<STREQUAL:$<TARGET_PROPERTY:EXECUTORCH_GGML_ISA>,avx2>)
      set_property(SOURCE ${floats} APPEND PROPERTY COMPILE_OPTIONS $<${is_avx2}:-fira-algorithm=priority>)
    endif()
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(tiles ${floats} ${bfloats})
    set_property(SOURCE ${tiles} APPEND PROPERTY COMPILE_OPTIONS -fno-schedule-insns -fira-algorithm=priority)
  elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang$")
    set_property(SOURCE ${bfloats} APPEND PROPERTY COMPILE_OPTIONS -mllvm -enable-misched=false)
  endif()
endfunction()

function(executorch_ggml_add_isa_kernels target)
  if(NOT ARGN)
    return()
  endif()
  _executorch_ggml_isas(isas)
  foreach(isa IN ITEMS generic ${isas})
    set(sources ${ARGN})
    if(isa IN_LIST _isa_variants)
      list(FILTER sources INCLUDE REGEX "_isa\\.cpp$|/${isa}/[^/]*\\.cpp$")
    else()
      list(FILTER sources INCLUDE REGEX "/${isa}/[^/]*\\.cpp$")
    endif()
    set(objects "${target}_${isa}")
    add_library(${objects} OBJECT ${sources})
    executorch_ggml_setup_target(${objects})
    target_link_libraries(${objects} PRIVATE executorch_ggml_generated ggml::ggml)
    target_include_directories(${objects} PRIVATE "${PROJECT_SOURCE_DIR}/native/runtime")
    target_compile_definitions(${objects} PRIVATE KERNEL_ISA=${isa})
    set_target_properties(${objects} PROPERTIES EXECUTORCH_GGML_ISA ${isa})
    if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
      # On x86 generic is what processors of before 2013 run: it is kept small instead.
      if(isa STREQUAL "generic" AND "avx2" IN_LIST isas)
        target_compile_options(${objects} PRIVATE -Os)
      else()
        target_compile_options(${objects} PRIVATE -O3)
      endif()
      # Intrinsics and loops that are unrolled by hand.
      list(FILTER sources INCLUDE REGEX "${_isa_folder}")
      set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -O2)
    endif()
    # Kernels throw nothing, so they need no tables to be unwound.
    target_compile_options(
      ${objects} PRIVATE ${_isa_flags_${isa}} -fno-exceptions -fno-unwind-tables -fno-asynchronous-unwind-tables
    )
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
    if(NOT isa STREQUAL "generic")
      string(TOUPPER "${isa}" upper)
      target_compile_definitions(${target} PRIVATE EXECUTORCH_GGML_ISA_${upper}=1)
      _executorch_ggml_check_objects(${objects} ${isa})
    endif()
  endforeach()
  _executorch_ggml_keep_tiles_in_registers(${ARGN})
endfunction()
