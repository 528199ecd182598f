"""Changes of one line that fix a kernel, as its first remedy.

  search                   the changes that are worth trying, and those that fix the kernel

Of compiled code:
  operand_changes          other arguments of a call while the kernel runs

Of the source in Python:
  source_changes           the source of a kernel in Python, changed
  functions                the functions that a kernel may call, and runs in which one of them is replaced
  mistaken_names           other names and indices; `other_numbers`, `other_calls`: other numbers and calls
  missing_statements       one more statement: a first write, an update, a guard, a flag
  syntax_parts             where an expression stands, and what may stand there; `source_text`: how a change is written
"""
