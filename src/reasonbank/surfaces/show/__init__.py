"""How answers look: tables, cards, pages, metrics."""
