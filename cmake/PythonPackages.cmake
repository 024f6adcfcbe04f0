# executorch_ggml_locate(<variable> <package> <file>)
#
# Sets <variable> to the folder of the Python package <package> that holds <file>, for the interpreter that builds, or to
# an empty string.
function(executorch_ggml_locate variable package marker)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/cmake/locate_package.py" "${package}" "${marker}"
    OUTPUT_VARIABLE folder
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status
  )
  if(NOT status EQUAL 0)
    set(folder "")
  endif()
  set(${variable} "${folder}" PARENT_SCOPE)
endfunction()
