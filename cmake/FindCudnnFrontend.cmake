# Finds the headers of cuDNN and cudnn-frontend: target CudnnFrontend::CudnnFrontend. The target links nothing, because
# the program loads libcudnn at run time. Searches STROBE_CUDNN_FRONTEND_DIR, build/cudnn-frontend (tools/cudnn-headers)
# and the packages of Python (STROBE_PYTHON or python3).
set(STROBE_CUDNN_FRONTEND_DIR "" CACHE PATH "Folder with cudnn-frontend's headers, or with them in its include/")

# Searched at every configure, so that newly installed packages are found.
set(CudnnFrontend_python python3)
if(NOT "$ENV{STROBE_PYTHON}" STREQUAL "")
  set(CudnnFrontend_python $ENV{STROBE_PYTHON})
endif()
execute_process(COMMAND ${CudnnFrontend_python} -c "import sysconfig; print(sysconfig.get_path('purelib'))"
  OUTPUT_VARIABLE CudnnFrontend_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(CudnnFrontend_packages "")
endif()

if(STROBE_CUDNN_FRONTEND_DIR)
  find_path(CudnnFrontend_INCLUDE_DIR cudnn_frontend.h PATHS ${STROBE_CUDNN_FRONTEND_DIR} PATH_SUFFIXES include
    NO_DEFAULT_PATH NO_CACHE)
  if(NOT CudnnFrontend_INCLUDE_DIR)
    message(FATAL_ERROR "STROBE_CUDNN_FRONTEND_DIR=${STROBE_CUDNN_FRONTEND_DIR}: no cudnn_frontend.h in it or in its "
      "include/")
  endif()
else()
  find_path(CudnnFrontend_INCLUDE_DIR cudnn_frontend.h
    HINTS ${PROJECT_SOURCE_DIR}/build/cudnn-frontend ${CudnnFrontend_packages} PATH_SUFFIXES include NO_CACHE)
endif()
find_path(CudnnFrontend_CUDNN_INCLUDE_DIR cudnn.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CudnnFrontend_packages}/nvidia/cudnn PATH_SUFFIXES include NO_CACHE)
find_library(CudnnFrontend_CUDNN_LIBRARY NAMES libcudnn.so.9
  HINTS ${CUDAToolkit_LIBRARY_DIR} ${CudnnFrontend_packages}/nvidia/cudnn PATH_SUFFIXES lib lib64 NO_CACHE)
if(NOT CudnnFrontend_CUDNN_LIBRARY)
  set(CudnnFrontend_CUDNN_LIBRARY "")  # not installed here; the program searches for it at run time
endif()

if(CudnnFrontend_INCLUDE_DIR)
  file(STRINGS ${CudnnFrontend_INCLUDE_DIR}/cudnn_frontend_version.h lines REGEX "define CUDNN_FRONTEND_[A-Z]+_VERSION [0-9]")
  string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
  list(JOIN numbers . CudnnFrontend_VERSION)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudnnFrontend
  REQUIRED_VARS CudnnFrontend_INCLUDE_DIR CudnnFrontend_CUDNN_INCLUDE_DIR VERSION_VAR CudnnFrontend_VERSION)

if(CudnnFrontend_FOUND AND NOT TARGET CudnnFrontend::CudnnFrontend)
  add_library(CudnnFrontend::CudnnFrontend INTERFACE IMPORTED)
  set_target_properties(CudnnFrontend::CudnnFrontend PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${CudnnFrontend_INCLUDE_DIR};${CudnnFrontend_CUDNN_INCLUDE_DIR}"
    INTERFACE_COMPILE_DEFINITIONS "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
    INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
