# executorch_ggml_locate(<variable> <package> <file>)
#
# Sets <variable> to the folder of the Python package <package> that holds <file>, for the interpreter that is built
# for, or to an empty string.
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

# Where an extension of this interpreter is installed. Packages in the same folder are found by a relative path.
execute_process(
  COMMAND "${Python_EXECUTABLE}" -c "import os, sysconfig; print(os.path.realpath(sysconfig.get_path('platlib')))"
  OUTPUT_VARIABLE EXECUTORCH_GGML_PLATLIB
  OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY
)
