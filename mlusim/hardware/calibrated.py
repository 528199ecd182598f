from mlusim.hardware.fitted import Fitted

FITTED: tuple[Fitted, ...] = ()

LEFT_OUT_US: dict[str, float] = {}
