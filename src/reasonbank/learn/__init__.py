"""What turns sessions into memories."""
