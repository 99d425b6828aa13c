# Finds OpenBLAS with its cblas.h: target OpenBLAS::OpenBLAS. Debian has the threaded variant in a separate folder,
# which update-alternatives may or may not link into the library path. cmake --install installs this file too, because
# projects that link libstrobe.a need it.
find_library(OpenBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread)
find_path(OpenBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-pthread openblas)
mark_as_advanced(OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR)

if(OpenBLAS_FOUND AND NOT TARGET OpenBLAS::OpenBLAS)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION ${OpenBLAS_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OpenBLAS_INCLUDE_DIR})
endif()
