"""What is done in the background."""
