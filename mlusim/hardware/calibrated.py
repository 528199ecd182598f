from mlusim.hardware.fitted import Fitted

FITTED: tuple[Fitted, ...] = ()
