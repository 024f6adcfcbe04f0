# Fails if an object file of OBJECTS defines a weak or unique symbol outside of namespace ISA: see IsaKernels.cmake.
foreach(object IN LISTS OBJECTS)
  execute_process(
    COMMAND "${NM}" --defined-only --demangle "${object}"
    OUTPUT_VARIABLE symbols
    COMMAND_ERROR_IS_FATAL ANY
  )
  string(REGEX MATCHALL "[^\n]* [WVu] [^\n]*" shared "${symbols}")
  list(FILTER shared EXCLUDE REGEX "::${ISA}::| DW\\.ref\\.")
  if(shared)
    list(JOIN shared "\n  " shared)
    message(FATAL_ERROR "${object} defines inline functions or variables that the linker may share with code for "
                        "other processors:\n  ${shared}\nPut them into namespace KERNEL_ISA, give them "
                        "internal linkage, or do without the library template.")
  endif()
endforeach()
