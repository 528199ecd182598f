"""From a `.mlu` file to a shared object.

Rewriting, line by line, of what C++ does not have:
  source                   the tokens of a preprocessed file, and the edits of its text
  rewriting                the passes over a file
  memory_arrays            `__nram__ float tile[64];`
  launches                 `kernel<<<dim, type, queue>>>(...)`
  entries                  functions that the host may launch, and `main`
  device_functions         device functions, of which each file of a program has its own
  host_functions           functions without `__mlu_func__`, which report calls by code for the board
  missing_returns          functions and lambdas of the board that end without their return
  unset_variables          local variables that are used before they are set, as the compiler warns
  undeclared_names         names that are missing, or that clash with the headers
  unknown_names            names of BANG C that are neither instructions nor in the headers

Compilation:
  translation              all files of a program: rewritten, compiled, and repeated if the compiler complains of names
  compilation              preprocess, compile and link
  toolchain                compilers and their options
  headers                  the headers that every file includes, and the names that they declare
  cache                    the cache of compiled files
  linking                  undefined functions raise an error when they are called
  loading                  test loads, which run static initializers
  compiler_messages        messages at the user's lines
  message_columns          columns of these lines
"""
