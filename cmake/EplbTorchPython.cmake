# Tests written in Python for what runs inside a server's Python: they need an interpreter that has torch, which is
# often not the first python3 on PATH.
include_guard()

if(EPLB_HAVE_TORCH AND NOT EPLB_TORCH_PYTHON)
  foreach(candidate python3 /usr/bin/python3 /usr/local/bin/python3)
    find_program(python_program NAMES ${candidate} NO_CACHE)
    if(python_program)
      execute_process(COMMAND ${python_program} -c "import torch, numpy" RESULT_VARIABLE missing OUTPUT_QUIET ERROR_QUIET)
      if(missing EQUAL 0)
        set(EPLB_TORCH_PYTHON ${python_program} CACHE FILEPATH "A Python that has torch and numpy")
        break()
      endif()
    endif()
    unset(python_program)
  endforeach()
  if(NOT EPLB_TORCH_PYTHON)
    message(FATAL_ERROR "EPLB_TORCH is on, but no python3 here can import torch and numpy; set EPLB_TORCH_PYTHON")
  endif()
endif()

# eplb_torch_python_test(NAME FILE [TIMEOUT seconds] [LABELS label...]): runs FILE with the built extension, the fake
# device and the Python packages of the loader in reach.
function(eplb_torch_python_test name file)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_test(NAME "${name}" COMMAND ${EPLB_TORCH_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set_tests_properties("${name}" PROPERTIES LABELS "torch;${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT "PYTHONPATH=${PROJECT_SOURCE_DIR}/lib/loader/python:${PROJECT_SOURCE_DIR}/tests/loader/python;EPLB_TORCH_LIBRARY=${PROJECT_BINARY_DIR}/lib/libeplb_torch.so;EPLB_FAKE_DEVICE=${PROJECT_BINARY_DIR}/lib/libfake_device.so;EPLB_PROGRAMS=${PROJECT_BINARY_DIR}/apps;EPLB_SOURCE_DIR=${PROJECT_SOURCE_DIR};OMP_NUM_THREADS=1;GLOO_SOCKET_IFNAME=lo")
endfunction()
