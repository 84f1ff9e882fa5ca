# Configures the preset `extension` and asks ninja for the commands that make the extension, without running them.
file(REMOVE_RECURSE ${BINARY_DIR})
execute_process(COMMAND ${CMAKE_COMMAND} --preset extension -B ${BINARY_DIR} WORKING_DIRECTORY ${SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${BINARY_DIR} -- -t commands lib/libeplb_torch.so OUTPUT_VARIABLE steps COMMAND_ERROR_IS_FATAL ANY)
if(NOT steps MATCHES "-o lib/libeplb_torch.so" OR steps MATCHES "apps/|lib/fit/|Catch2")
  message(FATAL_ERROR "the extension is not built alone:\n${steps}")
endif()
