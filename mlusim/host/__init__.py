"""What a host program holds: the device, its watchdog and progress line, and `verify`."""
