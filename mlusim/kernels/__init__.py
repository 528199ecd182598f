"""The operators as a kernel engineer writes them, and the planners that split them over the cores."""
