"""Retiming: the time of a run on another board, from its log alone.

Modules:
  retime                   `mlusim.retime`; refuses runs whose kernels would issue other operations there
  replay, buffers          the records of a log, issued again; their buffers
"""
