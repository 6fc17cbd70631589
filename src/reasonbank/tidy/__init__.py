"""Many memories to one."""
