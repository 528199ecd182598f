"""The host side: the device, its watchdog and progress bar, `run` and `verify`."""
