# attnfuzz_refuse_inexact(<kernel> <options>): stops the configuration if an EXACT kernel is
# compiled with an option that makes a GPU round differently from the executor. It looks at the
# kernel's options, the directory's and the project's.
include_guard(GLOBAL)
function(attnfuzz_refuse_inexact name options)
  get_directory_property(of_directory COMPILE_OPTIONS)
  set(all ${options} ${of_directory} ${ATTNFUZZ_KERNEL_OPTIONS} ${CMAKE_CUDA_FLAGS} ${CMAKE_CXX_FLAGS})
  if("${all}" MATCHES "-+(use_fast_math|ffast-math|Ofast|ftz[=; ]true|fmad[=; ]true|prec-(div|sqrt)[=; ]false|ffp-contract=(fast|on))")
    message(FATAL_ERROR "attnfuzz_add_kernel(${name} EXACT): compiled with ${CMAKE_MATCH_0} its bits on a GPU are not "
                        "those of the executor: subnormals, divisions or fused additions are rounded otherwise. Leave "
                        "out the option, or EXACT")
  endif()
endfunction()
