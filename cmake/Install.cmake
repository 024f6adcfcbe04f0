# What is installed, relative to the prefix. In a wheel the prefix is the Python package itself:
#
#   lib/libexecutorch_ggml_runtime.so       the delegate (and ggml's libraries, where they were built here)
#   lib/cmake/executorch_ggml/              for find_package(executorch_ggml)
#   include/executorch_ggml.h               the delegate's few C functions
#   _session*.so, _program*.so              Python only
#   ir/_generated/                          Python only
#   lib/libggml-pydevice.so                 devices written in Python, for any ggml program
#   ggml/lib/, ggml/include/                a copy of the ggml package that a wheel was built with

include(CMakePackageConfigHelpers)

set(_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/executorch_ggml")
set(_origin "$ORIGIN")
if(APPLE)
  set(_origin "@loader_path")
endif()

# A wheel brings its ggml. An editable install takes the one of its environment, where developers change it.
set(_brings_ggml OFF)
if(_in_wheel AND EXECUTORCH_GGML_GGML_IS_PACKAGE AND NOT SKBUILD_STATE STREQUAL "editable")
  set(_brings_ggml ON)
endif()

# Where else than beside our package ExecuTorch and ggml are looked for, by absolute path. A wheel names no Python package
# so: those that it was built with may be gone when it is installed, as pip's build environments are.
set(_executorch_root "${EXECUTORCH_GGML_EXECUTORCH_ROOT}")
set(_ggml_root "${EXECUTORCH_GGML_GGML_ROOT}")
if(_in_wheel)
  set(_executorch_root "")
  if(EXECUTORCH_GGML_GGML_IS_PACKAGE)
    set(_ggml_root "")
  endif()
endif()

# executorch_ggml_set_rpath(<target> <way to our libraries> <way to our package>)
function(executorch_ggml_set_rpath target own package)
  set(paths "${_origin}${own}")
  if(_in_wheel)
    set(ggml "../libggml")
    if(_brings_ggml)
      set(ggml "ggml")
    endif()
    foreach(folder IN ITEMS ../executorch/lib ${ggml}/lib ${ggml}/lib64)
      list(APPEND paths "${_origin}${package}/${folder}")
    endforeach()
  endif()
  foreach(root IN LISTS _executorch_root _ggml_root)
    list(APPEND paths "${root}/lib" "${root}/lib64")
  endforeach()
  if(EXECUTORCH_DIR AND EXECUTORCH_RUNTIME_LIBRARY_DIR)
    list(APPEND paths "${EXECUTORCH_RUNTIME_LIBRARY_DIR}")
  endif()
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${paths}")
endfunction()

if(EXECUTORCH_GGML_BUILD_DELEGATE)
  executorch_ggml_set_rpath(executorch_ggml_runtime "" "/..")
  install(
    TARGETS executorch_ggml_runtime
    EXPORT executorch_ggml-targets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  )
  install(
    FILES "${PROJECT_SOURCE_DIR}/native/executorch/executorch_ggml.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  )
  if(EXECUTORCH_GGML_BUNDLED_GGML)
    install(
      TARGETS ${EXECUTORCH_GGML_BUNDLED_GGML}
      EXPORT executorch_ggml-targets
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      PUBLIC_HEADER DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    )
  endif()
  install(EXPORT executorch_ggml-targets NAMESPACE executorch_ggml:: DESTINATION "${_config_dir}")
  configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/executorch_ggml-config.cmake.in"
    "${CMAKE_BINARY_DIR}/executorch_ggml-config.cmake"
    INSTALL_DESTINATION "${_config_dir}"
  )
  write_basic_package_version_file(
    "${CMAKE_BINARY_DIR}/executorch_ggml-config-version.cmake" COMPATIBILITY SameMinorVersion
  )
  install(
    FILES "${CMAKE_BINARY_DIR}/executorch_ggml-config.cmake"
          "${CMAKE_BINARY_DIR}/executorch_ggml-config-version.cmake"
    DESTINATION "${_config_dir}"
  )
elseif(EXECUTORCH_GGML_BUNDLED_GGML)
  install(TARGETS ${EXECUTORCH_GGML_BUNDLED_GGML} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()

# Libraries under the two names that a linker and a program ask for, and what find_package(ggml) reads.
if(_brings_ggml)
  install(
    DIRECTORY "${EXECUTORCH_GGML_GGML_ROOT}/"
    DESTINATION ggml
    FILES_MATCHING
    PATTERN "include/*.h"
    PATTERN "lib*${CMAKE_SHARED_LIBRARY_SUFFIX}"
    PATTERN "lib*${CMAKE_SHARED_LIBRARY_SUFFIX}.?"
    PATTERN "ggml-config*.cmake"
    PATTERN "bin" EXCLUDE
    PATTERN "__pycache__" EXCLUDE
    PATTERN "src" EXCLUDE
  )
endif()

if(EXECUTORCH_GGML_BUILD_PYTHON)
  executorch_ggml_set_rpath(_session "/${CMAKE_INSTALL_LIBDIR}" "")
  install(TARGETS _session LIBRARY DESTINATION .)
  if(TARGET _program)
    executorch_ggml_set_rpath(_program "/${CMAKE_INSTALL_LIBDIR}" "")
    install(TARGETS _program LIBRARY DESTINATION .)
  endif()
  install(TARGETS ggml_pydevice LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(
    FILES "${EXECUTORCH_GGML_GENERATED_PYTHON}/ggml_ir_generated.py"
          "${EXECUTORCH_GGML_GENERATED_PYTHON}/__init__.py"
    DESTINATION ir/_generated
  )
endif()
