"""What coding agents run at certain moments: `reasonbank hook EVENT --agent NAME`."""
