# Compiler settings and the three functions with which every folder describes itself.
include_guard()
include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # the same objects serve the programs and the torch extension
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths inside the checkout are hashed as relative ones, so that every checkout profits from what another has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

add_library(eplb_flags INTERFACE)
# One rounding per operation on every machine: a contracted multiply-add would give other bytes on aarch64 (docs/design.md).
target_compile_options(eplb_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(eplb_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>) # false alarms in g++ 12 at -O3
endif()
if(EPLB_WERROR)
  target_compile_options(eplb_flags INTERFACE -Werror)
endif()
if(EPLB_SANITIZE)
  # A null pointer ends in AddressSanitizer anyway; the checks for it are a fifth of the time to compile.
  target_compile_options(eplb_flags INTERFACE -fsanitize=${EPLB_SANITIZE} -fno-sanitize=null,vptr,object-size
    -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(eplb_flags INTERFACE -fsanitize=${EPLB_SANITIZE})
endif()

# eplb_module(NAME [DEPENDS module...] [PRIVATE library...]): the static library eplb_NAME from every .cpp of this folder.
function(eplb_module name)
  cmake_parse_arguments(arg "" "" "DEPENDS;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(eplb_${name} STATIC ${sources})
  target_include_directories(eplb_${name} PUBLIC ${PROJECT_SOURCE_DIR}/lib)
  target_link_libraries(eplb_${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE} eplb_flags)
endfunction()

# eplb_program(NAME DEPENDS module...): the executable NAME from every .cpp of this folder.
function(eplb_program name)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} eplb_cli CLI11::CLI11 fmt::fmt eplb_flags)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# eplb_test(NAME DEPENDS library... [LABELS label...]): Catch2 program test_NAME from every .cpp of this folder, each case one CTest test.
# Catch2 exits with the number of failed assertions, so no exit code can mean "skipped"; a test says it in words (WARN).
function(eplb_test name)
  cmake_parse_arguments(arg "" "" "DEPENDS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_executable(test_${name} ${sources})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(test_${name} PRIVATE ${arg_DEPENDS} Catch2::Catch2WithMain eplb_flags)
  catch_discover_tests(test_${name} TEST_PREFIX "${name}: " PROPERTIES LABELS "unit;${arg_LABELS}"
                       SKIP_REGULAR_EXPRESSION "skipped: no folder with real counts")
endfunction()

# eplb_use_openmp(TARGET): OpenMP over layers; without it the same loops run serially and give the same bytes.
function(eplb_use_openmp target)
  if(EPLB_OPENMP)
    target_link_libraries(${target} PRIVATE OpenMP::OpenMP_CXX)
  else()
    target_compile_options(${target} PRIVATE -Wno-unknown-pragmas)
  endif()
endfunction()

# eplb_add_build_info(TARGET): version and commit, looked up at every build and rewritten only when they changed.
function(eplb_add_build_info target)
  set(header ${PROJECT_BINARY_DIR}/generated/eplb_generated_build_info.hpp)
  add_custom_target(eplb_build_info
    COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION} -DOUTPUT=${header}
            -P ${PROJECT_SOURCE_DIR}/cmake/WriteBuildInfo.cmake
    BYPRODUCTS ${header})
  add_dependencies(${target} eplb_build_info)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
endfunction()
