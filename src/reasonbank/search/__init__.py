"""A question in, memories out."""
