"""The host side: the device, its watchdog and progress line, and `verify`."""
