# Read by llama.cpp's first project(): fewer compile minutes, the same program.
# Only how the sources are grouped and optimised changes. ggml keeps its -O3; what is not on the
# decode path (HTTP, tool parsing, images) gets -O1. A tree that does not compile this way is
# compiled again without this file.
if(CMAKE_VERSION VERSION_LESS 3.19)
  return()
endif()

function(specproxy_tune target optimisation batch)
  if(NOT TARGET ${target})
    return()
  endif()
  target_compile_options(${target} PRIVATE ${optimisation})
  if(batch)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(source IN LISTS ARGN) # these must stay by themselves
      set_source_files_properties(${folder}/${source}
        TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endforeach()
  endif()
endfunction()

function(specproxy_tune_all)
  specproxy_tune(llama -O2 0)
  specproxy_tune(llama-common -O2 8 json.cpp)
  specproxy_tune(server-context -O1 5)
  specproxy_tune(llama-server-impl -O1 2)
  specproxy_tune(cpp-httplib -O1 0)
  specproxy_tune(mtmd -O1 16 mtmd.cpp mtmd-audio.cpp mtmd-image.cpp
    mtmd-helper.cpp mtmd-helper-gen.cpp clip.cpp)
endfunction()

cmake_language(DEFER CALL specproxy_tune_all)
