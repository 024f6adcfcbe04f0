# Options of everything that is compiled here, carried by an interface target that is linked privately.

add_library(executorch_ggml_options INTERFACE)
target_compile_options(executorch_ggml_options INTERFACE -Wall -Wextra)
if(EXECUTORCH_GGML_WERROR)
  target_compile_options(executorch_ggml_options INTERFACE -Werror)
endif()

# Each function in a section of its own, so that the linker can drop what is not reached.
target_compile_options(executorch_ggml_options INTERFACE -ffunction-sections -fdata-sections)
if(APPLE)
  target_link_options(executorch_ggml_options INTERFACE LINKER:-dead_strip)
else()
  target_link_options(executorch_ggml_options INTERFACE LINKER:--gc-sections LINKER:--as-needed)
endif()

if(EXECUTORCH_GGML_SELECTION)
  target_compile_options(
    executorch_ggml_options INTERFACE -fno-exceptions -fno-rtti -fno-unwind-tables -fno-asynchronous-unwind-tables
  )
endif()

if(EXECUTORCH_GGML_SANITIZE)
  set(_sanitizers -fsanitize=${EXECUTORCH_GGML_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(executorch_ggml_options INTERFACE ${_sanitizers} -g)
  target_link_options(executorch_ggml_options INTERFACE ${_sanitizers})
elseif(NOT APPLE)
  # An undefined symbol is an error when the library is made, not when somebody loads it.
  target_link_options(
    executorch_ggml_options INTERFACE
    "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>:LINKER:--no-undefined>"
  )
endif()

# executorch_ggml_setup_target(<target>): what every target of ours shares.
function(executorch_ggml_setup_target target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:executorch_ggml_options>)
  set_target_properties(
    ${target}
    PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  )
endfunction()
