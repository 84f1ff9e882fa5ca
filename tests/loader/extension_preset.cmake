# Configures the preset `extension` and asks ninja what it would do, without doing it.
file(REMOVE_RECURSE ${BINARY_DIR})
execute_process(COMMAND ${CMAKE_COMMAND} --preset extension -B ${BINARY_DIR} WORKING_DIRECTORY ${SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY_DIR} --target eplb_torch -- -n OUTPUT_VARIABLE steps COMMAND_ERROR_IS_FATAL ANY)
if(NOT steps MATCHES "Linking CXX shared module lib/libeplb_torch.so" OR steps MATCHES "apps/|lib/fit/|Catch2")
  message(FATAL_ERROR "the extension is not built alone:\n${steps}")
endif()
