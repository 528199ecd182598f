"""Retiming: the time of a run on another board, from its log.

retime     `mlusim.retime`: refuses runs whose kernels would issue other operations there
replay     the records of a log, issued again
buffers    the buffers of a replay
"""
