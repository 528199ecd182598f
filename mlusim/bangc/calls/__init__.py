"""Calls of the simulator by compiled code: each intrinsic and its operation of the core.

Every call:
  intrinsics               every intrinsic, by number
  call_record              what compiled code stores for a call, and the value that the call returns
  type_codes               the codes of the C types of the values
  argument_rules           the types of arguments, which the compiler checks

By kind:
  instruction_calls        vector and tensor instructions
  copy_calls               `__memcpy` and related calls
  device_calls             atomics, sets, gathers and scatters
  assembly                 assembly statements
  host_calls               functions of CNRT and CNDRV
"""
