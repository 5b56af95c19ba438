"""Two readings of one text: rounding, a tie that fell the other way, or damage."""
