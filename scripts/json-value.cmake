# Prints one value of a JSON file, for shell scripts on machines that have CMake but no jq:
#   cmake -P scripts/json-value.cmake FILE KEY...        a key is a member's name or an element's index
set(path "")
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE 4 ${last})
  list(APPEND path "${CMAKE_ARGV${index}}")
endforeach()
file(READ "${CMAKE_ARGV3}" document)
string(JSON value GET "${document}" ${path})
execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${value}")
