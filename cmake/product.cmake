# Builds libstrobe from the objects of core, device and attention: a shared library that exports only the public API
# (cmake/exports.map), and a static one. Defines what `cmake --install --component library` installs.
include(CMakePackageConfigHelpers)

get_property(folders GLOBAL PROPERTY STROBE_FOLDERS)
list(FILTER folders INCLUDE REGEX "^strobe_(core|device|attention)$")
list(TRANSFORM folders REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)

set(private_libraries ${STROBE_LINKED_BLAS} Threads::Threads ${CMAKE_DL_LIBS})
if(STROBE_HAS_CUDA)
  list(APPEND private_libraries CUDA::cudart_static)
endif()

add_library(strobe_static STATIC ${objects})
set(products strobe_static)
if(STROBE_SHARED)
  add_library(strobe SHARED ${objects})
  set_target_properties(strobe PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    INSTALL_RPATH_USE_LINK_PATH ON  # for libraries outside the system's library path
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
  target_link_options(strobe PRIVATE LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
  list(APPEND products strobe)
endif()

add_custom_target(library DEPENDS ${products})

foreach(product IN LISTS products)
  set_target_properties(${product} PROPERTIES OUTPUT_NAME strobe LINKER_LANGUAGE CXX)
  target_link_libraries(${product} PRIVATE ${private_libraries})
  target_compile_features(${product} PUBLIC cxx_std_20)
  target_include_directories(${product} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  add_library(strobe::${product} ALIAS ${product})
endforeach()

# find_package(strobe) defines strobe::strobe (shared) and strobe::strobe_static.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME library)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/strobe)
install(TARGETS ${products} EXPORT strobe_targets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/strobe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT strobe_targets NAMESPACE strobe:: FILE strobe-targets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/strobe-config.cmake.in ${PROJECT_BINARY_DIR}/strobe-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/strobe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/strobe-config.cmake ${PROJECT_BINARY_DIR}/strobe-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindOpenBLAS.cmake
  DESTINATION ${package_dir})

# For pkg-config. The prefix is relative to the file, so the installed tree can be moved.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(pc_private "-lstdc++ -lm -pthread -ldl")
if(STROBE_HAS_CUDA)
  string(APPEND pc_private " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
set(pc_requires)
if(STROBE_LINKED_BLAS)
  set(pc_requires openblas)
endif()
configure_file(cmake/strobe.pc.in ${PROJECT_BINARY_DIR}/strobe.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/strobe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
unset(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME)
