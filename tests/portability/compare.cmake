# cmake -DNATIVE=fit_bytes -DSOURCE=checkout -DBUILD=folder [-DHEADERS=folder;...] -P compare.cmake
# Builds fit_bytes for aarch64, runs it under qemu and fails unless it prints what the native one prints.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

# Headers of fmt and Eigen are the same for every processor, but the cross compiler does not look into /usr/include.
file(MAKE_DIRECTORY ${BUILD}/headers)
foreach(package fmt eigen3)
  file(CREATE_LINK /usr/include/${package} ${BUILD}/headers/${package} SYMBOLIC)
endforeach()
run(${CMAKE_COMMAND} -S ${SOURCE}/tests/portability/aarch64 -B ${BUILD} -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_UNITY_BUILD=ON
    -DCMAKE_TOOLCHAIN_FILE=${SOURCE}/cmake/aarch64.cmake "-DHEADERS=${BUILD}/headers\;${BUILD}/headers/eigen3")
run(${CMAKE_COMMAND} --build ${BUILD})
execute_process(COMMAND ${NATIVE} bounds OUTPUT_VARIABLE native COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND qemu-aarch64-static ${BUILD}/fit_bytes bounds OUTPUT_VARIABLE foreign COMMAND_ERROR_IS_FATAL ANY)
if(NOT native STREQUAL foreign)
  message(FATAL_ERROR "native:\n${native}\naarch64:\n${foreign}")
endif()
if(NOT native MATCHES "search-step [0-9a-f]+ [0-9a-f]+ 1" OR NOT native MATCHES "bound [0-9a-f]+")
  message(FATAL_ERROR "fit_bytes did not fit the step objective or print bounds:\n${native}")
endif()
